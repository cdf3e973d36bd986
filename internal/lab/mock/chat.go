package mock

import "strconv"

// chat is the shape of /v1/chat/completions. The parts that are equal in every chunk of an answer
// are formatted once, by prepare.
type chat struct {
	j    *job
	id   []byte // {"id":"…
	head []byte // of a chunk: all up to the index of its choice
	tail string // of a chunk: all after its choice
	made string // Unix time of the answer
	tool string // JSON name of the tool to be called; "" = answer in text
}

const chatVersion = `,"service_tier":"default","system_fingerprint":"fp_mock"`

func (c *chat) prepare(j *job, created string) {
	c.j = j
	c.made = created
	c.id = j.appendID(c.id[:0], `{"id":"chatcmpl-`)
	c.tool = ""
	if j.call.callsTool() {
		c.tool = j.call.toolName()
	}
	if !j.call.streams() {
		return
	}
	c.head = append(c.head[:0], c.id...)
	c.head = append(c.head, `","object":"chat.completion.chunk","created":`...)
	c.head = append(c.head, created...)
	c.head = append(c.head, `,"model":`...)
	c.head = append(c.head, j.call.model.Raw...)
	c.head = append(c.head, chatVersion...)
	c.head = append(c.head, `,"choices":[`...)
	c.tail = `]}`
	if j.usageChunk() { // OpenAI then has the field in every chunk
		c.tail = `],"usage":null}`
	}
}

// reuse keeps the buffers for the next request.
func (c *chat) reuse() chat { return chat{id: c.id[:0], head: c.head[:0]} }

// open begins a chunk, up to the content of its delta.
func (c *chat) open(s *sse, choice int) {
	s.open("")
	s.buf = append(s.buf, c.head...)
	s.buf = append(s.buf, `{"index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(choice), 10)
	s.buf = append(s.buf, `,"delta":{`...)
}

// close ends a chunk that open began.
func (c *chat) close(s *sse) {
	s.buf = append(s.buf, `},"logprobs":null,"finish_reason":null}`...)
	s.buf = append(s.buf, c.tail...)
	s.close()
}

func (c *chat) begin(s *sse) {
	for choice := range c.j.plan.choices {
		c.open(s, choice)
		if c.tool == "" {
			s.buf = append(s.buf, `"role":"assistant","content":"","refusal":null`...)
		} else {
			s.buf = append(s.buf, `"role":"assistant","content":null,"tool_calls":[{"index":0,`...)
			s.buf = c.appendCall(s.buf, choice)
			s.buf = append(s.buf, `"}}],"refusal":null`...)
		}
		c.close(s)
	}
}

func (c *chat) token(s *sse, choice, i int) {
	c.open(s, choice)
	if c.tool == "" {
		s.buf = append(s.buf, `"content":"`...)
		s.buf = append(s.buf, word(choice, i)...)
		s.buf = append(s.buf, '"')
	} else {
		s.buf = append(s.buf, `"tool_calls":[{"index":0,"function":{"arguments":"`...)
		s.buf = append(s.buf, c.j.call.argument(choice, i, c.j.plan.natural)...)
		s.buf = append(s.buf, `"}}]`...)
	}
	s.buf = append(s.buf, `},"logprobs":null,"finish_reason":null}`...)
	s.buf = c.j.appendSoFar(s.buf, c.tail)
	s.close()
}

func (c *chat) end(s *sse) {
	p := &c.j.plan
	for choice := range p.choices {
		s.open("")
		s.buf = append(s.buf, c.head...)
		s.buf = append(s.buf, `{"index":`...)
		s.buf = strconv.AppendInt(s.buf, int64(choice), 10)
		s.buf = append(s.buf, `,"delta":{},"logprobs":null,"finish_reason":"`...)
		s.buf = append(s.buf, c.reason()...)
		s.buf = append(s.buf, `"}`...)
		s.buf = c.j.appendTail(s.buf, c.tail, choice)
		s.close()
	}
	c.j.endChunks(s, c.head)
}

func (c *chat) broken(s *sse, e *apiError) { brokenChunk(s, e) }

// reason returns the finish_reason of the answer.
func (c *chat) reason() string {
	if c.tool != "" && !c.j.plan.cut {
		return "tool_calls"
	}
	return c.j.plan.reason()
}

func (c *chat) plain(b []byte) []byte {
	p := &c.j.plan
	b = append(b, c.id...)
	b = append(b, `","object":"chat.completion","created":`...)
	b = append(b, c.made...)
	b = append(b, `,"model":`...)
	b = append(b, c.j.call.model.Raw...)
	b = append(b, `,"choices":[`...)
	for choice := range p.choices {
		if choice > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(choice), 10)
		b = append(b, `,"message":{"role":"assistant","content":`...)
		if c.tool == "" {
			b = append(b, '"')
			b = appendWords(b, choice, p.length)
			b = append(b, '"')
		} else {
			b = append(b, `null,"tool_calls":[{`...)
			b = c.appendCall(b, choice)
			b = c.j.call.appendArguments(b, choice, p.length, p.natural)
			b = append(b, `"}}]`...)
		}
		b = append(b, `,"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"`...)
		b = append(b, c.reason()...)
		b = append(b, `"}`...)
	}
	b = append(b, ']')
	b = c.j.appendPlainUsage(b)
	b = append(b, chatVersion...)
	return append(b, '}')
}

// appendCall begins a tool call up to its arguments.
func (c *chat) appendCall(b []byte, choice int) []byte {
	b = append(b, `"id":"call_`...)
	b = c.j.appendID(b, "")
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `","type":"function","function":{"name":`...)
	b = append(b, c.tool...)
	return append(b, `,"arguments":"`...)
}
