package mock

import "strconv"

// messages is the shape of Anthropic's /v1/messages: one block of text. Usage comes in two
// parts, the prompt's at the start, and the output's, which is cumulative, at the end.
type messages struct {
	j  *job
	id []byte
}

func (m *messages) prepare(j *job, _ string) {
	m.j = j
	m.id = j.appendID(m.id[:0], "msg_")
}

func (m *messages) reuse() messages { return messages{id: m.id[:0]} }

// open begins an event, up to the fields of its own.
func (m *messages) open(s *sse, name string) {
	s.open(name)
	s.buf = append(s.buf, `{"type":"`...)
	s.buf = append(s.buf, name...)
	s.buf = append(s.buf, '"')
}

func (m *messages) close(s *sse, rest string) {
	s.buf = append(s.buf, rest...)
	s.buf = append(s.buf, '}')
	s.close()
}

func (m *messages) begin(s *sse) {
	m.open(s, "message_start")
	s.buf = append(s.buf, `,"message":`...)
	s.buf = m.appendMessage(s.buf, 0, "")
	s.buf = m.appendUsage(s.buf, 1) // it says 1 before there is anything
	m.close(s, "}")
	m.open(s, "content_block_start")
	m.close(s, `,"index":0,"content_block":{"type":"text","text":""}`)
}

func (m *messages) token(s *sse, choice, i int) {
	m.open(s, "content_block_delta")
	s.buf = append(s.buf, `,"index":0,"delta":{"type":"text_delta","text":"`...)
	s.buf = append(s.buf, word(choice, i)...)
	m.close(s, `"}`)
	if m.j.plan.usage == UsageEach {
		m.delta(s, "", m.j.ticket.produced+1)
	}
}

func (m *messages) end(s *sse) {
	m.open(s, "content_block_stop")
	m.close(s, `,"index":0`)
	m.delta(s, m.reason(), m.j.ticket.produced)
	m.open(s, "message_stop")
	m.close(s, "")
}

// delta tells of the message itself: why it ends, and what it has produced in all.
func (m *messages) delta(s *sse, reason string, produced int64) {
	m.open(s, "message_delta")
	s.buf = append(s.buf, `,"delta":{"stop_reason":`...)
	s.buf = appendOrNull(s.buf, reason)
	s.buf = append(s.buf, `,"stop_sequence":null}`...)
	if m.j.plan.usage != UsageAbsent {
		s.buf = append(s.buf, `,"usage":{"output_tokens":`...)
		s.buf = strconv.AppendInt(s.buf, produced, 10)
		s.buf = append(s.buf, '}')
	}
	m.close(s, "")
}

func (m *messages) broken(s *sse, e *apiError) {
	s.open("error")
	s.buf = e.appendAnthropic(s.buf)
	s.close()
}

func (m *messages) plain(b []byte) []byte {
	b = m.appendMessage(b, m.j.plan.length, m.reason())
	if !m.j.plan.noUsage {
		b = m.appendUsage(b, m.j.ticket.produced)
	}
	return append(b, '}')
}

// reason returns why the answer ends.
func (m *messages) reason() string {
	if m.j.plan.cut {
		return "max_tokens"
	}
	return "end_turn"
}

// appendMessage writes the message with its first n tokens, up to its usage.
func (m *messages) appendMessage(b []byte, n int, reason string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, m.id...)
	b = append(b, `","type":"message","role":"assistant","model":`...)
	b = append(b, m.j.call.model.Raw...)
	b = append(b, `,"content":[`...)
	if reason != "" {
		b = append(b, `{"type":"text","text":"`...)
		b = appendWords(b, 0, n)
		b = append(b, `"}`...)
	}
	b = append(b, `],"stop_reason":`...)
	b = appendOrNull(b, reason)
	return append(b, `,"stop_sequence":null`...)
}

func (m *messages) appendUsage(b []byte, produced int64) []byte {
	if m.j.plan.usage == UsageAbsent && m.j.call.streams() {
		return b
	}
	b = append(b, `,"usage":{"input_tokens":`...)
	b = strconv.AppendInt(b, m.j.ticket.prompt, 10)
	b = append(b, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":`...)
	b = strconv.AppendInt(b, produced, 10)
	return append(b, '}')
}
