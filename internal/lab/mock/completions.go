package mock

import "strconv"

// completions is the shape of /v1/completions. Each prompt has n answers; they are numbered
// prompt by prompt.
type completions struct {
	j    *job
	id   []byte
	head []byte // of a chunk: all up to its choice
	tail string
}

func (c *completions) prepare(j *job, created string) {
	c.j = j
	c.id = j.appendID(c.id[:0], `{"id":"cmpl-`)
	c.head = append(c.head[:0], c.id...)
	c.head = append(c.head, `","object":"text_completion","created":`...)
	c.head = append(c.head, created...)
	c.head = append(c.head, `,"model":`...)
	c.head = append(c.head, j.call.model.Raw...)
	c.head = append(c.head, `,"system_fingerprint":"fp_mock","choices":[`...)
	c.tail = `]}`
	if j.usageChunk() {
		c.tail = `],"usage":null}`
	}
}

func (c *completions) reuse() completions {
	return completions{id: c.id[:0], head: c.head[:0]}
}

func (c *completions) begin(*sse) {} // text has no role to announce

func (c *completions) token(s *sse, choice, i int) {
	s.open("")
	s.buf = append(s.buf, c.head...)
	s.buf = append(s.buf, `{"text":"`...)
	s.buf = append(s.buf, word(choice, i)...)
	s.buf = appendChoiceEnd(s.buf, choice, "")
	s.buf = c.j.appendSoFar(s.buf, c.tail)
	s.close()
}

func (c *completions) end(s *sse) {
	for choice := range c.j.plan.choices {
		s.open("")
		s.buf = append(s.buf, c.head...)
		s.buf = append(s.buf, `{"text":"`...)
		s.buf = appendChoiceEnd(s.buf, choice, c.j.plan.reason())
		s.buf = c.j.appendTail(s.buf, c.tail, choice)
		s.close()
	}
	c.j.endChunks(s, c.head)
}

func (c *completions) broken(s *sse, e *apiError) { brokenChunk(s, e) }

func (c *completions) plain(b []byte) []byte {
	b = append(b, c.head...)
	for choice := range c.j.plan.choices {
		if choice > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"text":"`...)
		b = appendWords(b, choice, c.j.plan.length)
		b = appendChoiceEnd(b, choice, c.j.plan.reason())
	}
	b = append(b, ']')
	b = c.j.appendPlainUsage(b)
	return append(b, '}')
}

// appendChoiceEnd closes a choice after its text. The reason "" is null.
func appendChoiceEnd(b []byte, choice int, reason string) []byte {
	b = append(b, `","index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	b = appendOrNull(b, reason)
	return append(b, '}')
}
