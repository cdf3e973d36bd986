package mock

import "strconv"

// reason returns the finish_reason of a text.
func (p *plan) reason() string {
	if p.cut {
		return "length"
	}
	return "stop"
}

// usageChunk reports whether the stream closes with a chunk that has only usage.
func (j *job) usageChunk() bool { return j.plan.usage == UsageChunk && j.call.includeUsage() }

// appendUsage writes the usage of a request that has produced so many tokens.
func appendUsage(b []byte, t *ticket, produced int64) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, t.prompt, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, produced, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, t.prompt+produced, 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, t.cached, 10)
	return append(b, `,"audio_tokens":0},"completion_tokens_details":`+
		`{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

// appendPlainUsage writes the usage field of a plain answer.
func (j *job) appendPlainUsage(b []byte) []byte {
	if j.plan.noUsage {
		return b
	}
	b = append(b, `,"usage":`...)
	return appendUsage(b, &j.ticket, j.ticket.produced)
}

// appendSoFar closes the chunk of a token.
func (j *job) appendSoFar(b []byte, tail string) []byte {
	if j.plan.usage != UsageEach {
		return append(b, tail...)
	}
	b = append(b, `],"usage":`...)
	b = appendUsage(b, &j.ticket, j.ticket.produced+1)
	return append(b, '}')
}

// appendTail closes the chunk with a choice's finish_reason. With UsageFinish the last such chunk
// has the usage too.
func (j *job) appendTail(b []byte, tail string, choice int) []byte {
	if j.plan.usage != UsageFinish && j.plan.usage != UsageEach || choice != j.plan.choices-1 {
		return append(b, tail...)
	}
	b = append(b, `],"usage":`...)
	b = appendUsage(b, &j.ticket, j.ticket.produced)
	return append(b, '}')
}

// endChunks closes a stream of chunks. Its head ends where the choices begin.
func (j *job) endChunks(s *sse, head []byte) {
	if j.usageChunk() {
		s.open("")
		s.buf = append(s.buf, head...)
		s.buf = append(s.buf, `],"usage":`...)
		s.buf = appendUsage(s.buf, &j.ticket, j.ticket.produced)
		s.buf = append(s.buf, '}')
		s.close()
	}
	s.open("")
	s.buf = append(s.buf, "[DONE]"...)
	s.close()
}

// brokenChunk sends an error in a stream of chunks. No [DONE] follows, because the answer is not done.
func brokenChunk(s *sse, e *apiError) {
	s.open("")
	s.buf = e.append(s.buf)
	s.close()
}
