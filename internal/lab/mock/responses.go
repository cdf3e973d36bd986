package mock

import (
	"strconv"

	"github.com/tidwall/gjson"
)

// responses is the shape of /v1/responses: one message of one text part or one call of a tool,
// sent either as a whole or as OpenAI's chain of typed events.
type responses struct {
	j     *job
	id    []byte // number of the answer, shared by resp_…, msg_…, fc_… and call_…
	tool  string // JSON name of the tool to be called; "" = answer in text
	delta []byte // of a delta: all between its sequence number and its text
	made  string
	seq   int64 // sequence number of the next event
}

func (r *responses) prepare(j *job, created string) {
	r.j = j
	r.made = created
	r.seq = 0
	r.id = j.appendID(r.id[:0], "")
	r.tool = ""
	if j.call.callsTool() {
		r.tool = j.call.toolName()
	}
	r.delta = r.appendPlace(r.delta[:0], r.tool == "")
	r.delta = append(r.delta, `,"delta":"`...)
}

func (r *responses) reuse() responses {
	return responses{id: r.id[:0], delta: r.delta[:0]}
}

// open begins an event, up to the fields of its own.
func (r *responses) open(s *sse, name string) {
	s.open(name)
	s.buf = append(s.buf, `{"type":"`...)
	s.buf = append(s.buf, name...)
	s.buf = append(s.buf, `","sequence_number":`...)
	s.buf = strconv.AppendInt(s.buf, r.seq, 10)
	r.seq++
}

func (r *responses) close(s *sse) {
	s.buf = append(s.buf, '}')
	s.close()
}

// appendPlace writes the item, and the part of it, of an event.
func (r *responses) appendPlace(b []byte, part bool) []byte {
	b = append(b, `,"item_id":"`...)
	b = r.appendItemID(b)
	b = append(b, `","output_index":0`...)
	if part {
		b = append(b, `,"content_index":0`...)
	}
	return b
}

func (r *responses) begin(s *sse) {
	for _, name := range []string{"response.created", "response.in_progress"} {
		r.open(s, name)
		s.buf = append(s.buf, `,"response":`...)
		s.buf = r.appendResponse(s.buf, "in_progress")
		r.close(s)
	}
	r.open(s, "response.output_item.added")
	s.buf = append(s.buf, `,"output_index":0,"item":`...)
	s.buf = r.appendItem(s.buf, "in_progress")
	r.close(s)
	if r.tool != "" {
		return
	}

	r.open(s, "response.content_part.added")
	s.buf = r.appendPlace(s.buf, true)
	s.buf = append(s.buf, `,"part":`...)
	s.buf = r.appendPart(s.buf, 0)
	r.close(s)
}

func (r *responses) token(s *sse, choice, i int) {
	if r.tool != "" {
		r.argument(s, choice, i)
		return
	}
	r.open(s, "response.output_text.delta")
	s.buf = append(s.buf, r.delta...)
	s.buf = append(s.buf, word(choice, i)...)
	s.buf = append(s.buf, `","logprobs":[]`...)
	r.close(s)
}

func (r *responses) end(s *sse) {
	status := r.status()
	if r.tool == "" {
		r.endText(s)
	} else {
		r.endCall(s)
	}

	r.open(s, "response.output_item.done")
	s.buf = append(s.buf, `,"output_index":0,"item":`...)
	s.buf = r.appendItem(s.buf, status)
	r.close(s)

	r.open(s, "response."+status)
	s.buf = append(s.buf, `,"response":`...)
	s.buf = r.appendResponse(s.buf, status)
	r.close(s)
}

func (r *responses) endText(s *sse) {
	length := r.j.plan.length
	r.open(s, "response.output_text.done")
	s.buf = r.appendPlace(s.buf, true)
	s.buf = append(s.buf, `,"text":"`...)
	s.buf = appendWords(s.buf, 0, length)
	s.buf = append(s.buf, `","logprobs":[]`...)
	r.close(s)

	r.open(s, "response.content_part.done")
	s.buf = r.appendPlace(s.buf, true)
	s.buf = append(s.buf, `,"part":`...)
	s.buf = r.appendPart(s.buf, length)
	r.close(s)
}

func (r *responses) broken(s *sse, e *apiError) {
	r.open(s, "error")
	s.buf = append(s.buf, `,"code":`...)
	s.buf = appendOrNull(s.buf, e.kind)
	s.buf = append(s.buf, `,"message":`...)
	s.buf = appendOrNull(s.buf, e.message)
	s.buf = append(s.buf, `,"param":null`...)
	r.close(s)
}

func (r *responses) plain(b []byte) []byte { return r.appendResponse(b, r.status()) }

// status returns the final status of the answer.
func (r *responses) status() string {
	if r.j.plan.cut {
		return "incomplete"
	}
	return "completed"
}

// appendPart writes the text part with its first n tokens.
func (r *responses) appendPart(b []byte, n int) []byte {
	b = append(b, `{"type":"output_text","annotations":[],"logprobs":[],"text":"`...)
	b = appendWords(b, 0, n)
	return append(b, `"}`...)
}

// appendItem writes the message: empty while in progress, with its text after.
func (r *responses) appendItem(b []byte, status string) []byte {
	if r.tool != "" {
		return r.appendCall(b, status)
	}
	b = append(b, `{"id":"`...)
	b = r.appendItemID(b)
	b = append(b, `","type":"message","status":"`...)
	b = append(b, status...)
	b = append(b, `","role":"assistant","content":[`...)
	if status != "in_progress" {
		b = r.appendPart(b, r.j.plan.length)
	}
	return append(b, "]}"...)
}

// pending reports whether a response of that status has no output yet.
func pending(status string) bool { return status == "queued" || status == "in_progress" }

// appendResponse writes the response object as it is at a status.
func (r *responses) appendResponse(b []byte, status string) []byte {
	b = append(b, `{"id":"resp_`...)
	b = append(b, r.id...)
	b = append(b, `","object":"response","created_at":`...)
	b = append(b, r.made...)
	b = append(b, `,"status":"`...)
	b = append(b, status...)
	b = append(b, `","background":`...)
	b = strconv.AppendBool(b, r.j.call.inBackground())
	b = append(b, `,"error":null,"incomplete_details":`...)
	if status == "incomplete" {
		b = append(b, `{"reason":"max_output_tokens"}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"instructions":`...)
	if in := r.j.call.instructions; in.Type == gjson.String { // because a list could bring line breaks into an event
		b = append(b, in.Raw...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"max_output_tokens":`...)
	if bound := r.j.call.bound(); bound > 0 {
		b = strconv.AppendInt(b, int64(bound), 10)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"model":`...)
	b = append(b, r.j.call.model.Raw...)
	b = append(b, `,"output":[`...)
	if !pending(status) {
		b = r.appendItem(b, status)
	}
	b = append(b, `],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},`+
		`"service_tier":"default","store":false,"temperature":1,"text":{"format":{"type":"text"}},"tool_choice":"auto",`+
		`"tools":[],"top_p":1,"truncation":"disabled","usage":`...)
	b = r.appendUsage(b, status)
	return append(b, `,"user":null,"metadata":{}}`...)
}

func (r *responses) appendUsage(b []byte, status string) []byte {
	t := &r.j.ticket
	if pending(status) || r.j.plan.noUsage || (r.j.plan.usage == UsageAbsent && r.j.call.streams()) {
		return append(b, "null"...)
	}
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, t.prompt, 10)
	b = append(b, `,"input_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, t.cached, 10)
	b = append(b, `},"output_tokens":`...)
	b = strconv.AppendInt(b, t.produced, 10)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...)
	b = strconv.AppendInt(b, t.prompt+t.produced, 10)
	return append(b, '}')
}

// compact is the shape of /v1/responses/compact: the conversation becomes one item that only the server can read.
type compact struct {
	unstreamed
	j *job
}

func (c *compact) prepare(j *job, _ string) { c.j = j }

func (c *compact) plain(b []byte) []byte {
	b = c.j.appendID(b, `{"object":"response.compaction","id":"resp_`)
	b = c.j.appendID(b, `","output":[{"type":"compaction","encrypted_content":"AAAA","id":"cmp_`)
	b = append(b, `"}],"usage":{"input_tokens":`...)
	b = strconv.AppendInt(b, c.j.ticket.prompt, 10)
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, c.j.ticket.produced, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, c.j.ticket.prompt+c.j.ticket.produced, 10)
	return append(b, "}}"...)
}
