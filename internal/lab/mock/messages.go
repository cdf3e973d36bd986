package mock

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// messages is the shape of Anthropic's /v1/messages: one block, of text or a tool's call.
type messages struct {
	j     *job
	id    []byte
	delta []byte // of a delta: all up to its text
	tool  string // JSON name of the tool to be called; "" = answer in text
}

func (m *messages) prepare(j *job, _ string) {
	m.j = j
	m.id = j.appendID(m.id[:0], "")
	m.tool = ""
	m.delta = append(m.delta[:0], `{"type":"content_block_delta","index":0,"delta":{"type":`...)
	if j.call.callsTool() {
		m.tool = j.call.toolName()
		m.delta = append(m.delta, `"input_json_delta","partial_json":"`...)
	} else {
		m.delta = append(m.delta, `"text_delta","text":"`...)
	}
}

func (m *messages) reuse() messages { return messages{id: m.id[:0], delta: m.delta[:0]} }

func (m *messages) begin(s *sse) {
	s.open("message_start")
	s.buf = append(s.buf, `{"type":"message_start","message":`...)
	s.buf = m.appendHead(s.buf)
	s.buf = append(s.buf, `"content":[],"stop_reason":null,"stop_sequence":null`...)
	s.buf = m.appendUsage(s.buf, 1) // as Anthropic's begin, whatever comes
	s.buf = append(s.buf, "}}"...)
	s.close()

	s.open("content_block_start")
	s.buf = append(s.buf, `{"type":"content_block_start","index":0,"content_block":`...)
	if m.tool == "" {
		s.buf = append(s.buf, `{"type":"text","text":""}`...)
	} else {
		s.buf = m.appendCall(s.buf)
		s.buf = append(s.buf, "{}}"...)
	}
	s.buf = append(s.buf, '}')
	s.close()
	m.bare(s, "ping", `{"type":"ping"}`)
}

func (m *messages) token(s *sse, choice, i int) {
	s.open("content_block_delta")
	s.buf = append(s.buf, m.delta...)
	if m.tool == "" {
		s.buf = append(s.buf, word(choice, i)...)
	} else {
		s.buf = append(s.buf, m.j.call.argument(choice, i, m.j.plan.natural)...)
	}
	s.buf = append(s.buf, `"}}`...)
	s.close()
	if m.j.plan.usage == UsageEach {
		m.change(s, "", m.j.ticket.produced+1)
	}
}

func (m *messages) end(s *sse) {
	m.bare(s, "content_block_stop", `{"type":"content_block_stop","index":0}`)
	m.change(s, m.reason(), m.j.ticket.produced)
	m.bare(s, "message_stop", `{"type":"message_stop"}`)
}

// change sends the end of the message: its reason, and the tokens produced.
func (m *messages) change(s *sse, reason string, produced int64) {
	s.open("message_delta")
	s.buf = append(s.buf, `{"type":"message_delta","delta":{"stop_reason":`...)
	s.buf = appendOrNull(s.buf, reason)
	s.buf = append(s.buf, `,"stop_sequence":null}`...)
	s.buf = m.appendUsage(s.buf, produced)
	s.buf = append(s.buf, '}')
	s.close()
}

func (m *messages) broken(s *sse, e *apiError) {
	s.open("error")
	s.buf = e.appendAnthropic(s.buf)
	s.close()
}

// bare sends an event that is always the same.
func (m *messages) bare(s *sse, name, data string) {
	s.open(name)
	s.buf = append(s.buf, data...)
	s.close()
}

func (m *messages) plain(b []byte) []byte {
	b = m.appendHead(b)
	b = append(b, `"content":[`...)
	if m.tool == "" {
		b = append(b, `{"type":"text","text":"`...)
		b = appendWords(b, 0, m.j.plan.length)
		b = append(b, `"}`...)
	} else {
		b = m.appendCall(b)
		b = m.appendInput(b)
		b = append(b, '}')
	}
	b = append(b, `],"stop_reason":"`...)
	b = append(b, m.reason()...)
	b = append(b, `","stop_sequence":null`...)
	b = m.appendUsage(b, m.j.ticket.produced)
	return append(b, '}')
}

// appendHead begins a message.
func (m *messages) appendHead(b []byte) []byte {
	b = append(b, `{"id":"msg_`...)
	b = append(b, m.id...)
	b = append(b, `","type":"message","role":"assistant","model":`...)
	b = append(b, m.j.call.model.Raw...)
	return append(b, ',')
}

// appendCall begins a tool's call up to its input.
func (m *messages) appendCall(b []byte) []byte {
	b = append(b, `{"type":"tool_use","id":"toolu_`...)
	b = append(b, m.id...)
	b = append(b, `","name":`...)
	b = append(b, m.tool...)
	return append(b, `,"input":`...)
}

// appendInput writes a tool's input as the object that its deltas form together. An input that
// was cut is empty, because it is not valid JSON.
func (m *messages) appendInput(b []byte) []byte {
	if n := m.j.plan.natural; n > 1 && !m.j.plan.cut {
		b = append(b, `{"text":"`...)
		b = appendWords(b, 0, n-2)
		return append(b, `"}`...)
	}
	_, arguments := m.j.call.shell()
	return append(b, cmp.Or(strings.ReplaceAll(arguments, `\"`, `"`), "{}")...)
}

func (m *messages) reason() string {
	switch {
	case m.j.plan.cut:
		return "max_tokens"
	case m.tool != "":
		return "tool_use"
	}
	return "end_turn"
}

// appendUsage writes the usage field. With a prefix cache, what it found counts as read, whatever is marked. Anthropic's input_tokens are those that were neither read
// from the cache nor written to it.
func (m *messages) appendUsage(b []byte, output int64) []byte {
	if m.j.plan.noUsage || (m.j.plan.usage == UsageAbsent && m.j.call.streams()) {
		return b
	}
	read := marked(m.j.call.system)
	written := int64(0)
	m.j.call.messages.ForEach(func(_, message gjson.Result) bool {
		written += marked(message.Get("content"))
		return true
	})
	if m.j.s.prefixes.most > 0 {
		read = m.j.ticket.cached
		written = 0
	}
	b = append(b, `,"usage":{"input_tokens":`...)
	b = strconv.AppendInt(b, m.j.ticket.prompt-read-written, 10)
	b = append(b, `,"cache_creation_input_tokens":`...)
	b = strconv.AppendInt(b, written, 10)
	b = append(b, `,"cache_read_input_tokens":`...)
	b = strconv.AppendInt(b, read, 10)
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, output, 10)
	return append(b, `,"service_tier":"standard"}`...)
}

// marked counts the tokens of the blocks that have a cache_control.
func marked(content gjson.Result) (n int64) {
	if !content.IsArray() {
		return 0
	}
	content.ForEach(func(_, block gjson.Result) bool {
		if block.Get("cache_control").IsObject() {
			n += textTokens(block.Get("text"))
		}
		return true
	})
	return n
}

// countTokens is the shape of /v1/messages/count_tokens and /v1/responses/input_tokens.
type countTokens struct {
	unstreamed
	j *job
}

func (c *countTokens) prepare(j *job, _ string) { c.j = j }

func (c *countTokens) plain(b []byte) []byte {
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, c.j.ticket.prompt, 10)
	return append(b, '}')
}
