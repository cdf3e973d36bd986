package mock

// shape is the format of an endpoint's answers. Its methods append to a buffer and do no I/O.
type shape interface {
	plain(b []byte) []byte          // the whole answer as one object
	begin(s *sse)                   // events before the first token
	token(s *sse, choice, i int)    // the event of token i of a choice
	end(s *sse)                     // events after the last token
	broken(s *sse, e *apiError)     // event of an error in mid-stream
	prepare(j *job, created string) // called before all others
}

// shapes are one of each kind, so that a job that is used again needs no allocation.
type shapes struct {
	chat        chat
	completions completions
	responses   responses
	messages    messages
	embeddings  embeddings
	moderations moderations
	countTokens countTokens
	rerank      rerank
	compact     compact
}

// of is the shape of a route's answers.
func (s *shapes) of(r route) shape {
	switch r {
	case routeCompletions:
		return &s.completions
	case routeResponses:
		return &s.responses
	case routeEmbeddings:
		return &s.embeddings
	case routeModerations:
		return &s.moderations
	case routeMessages:
		return &s.messages
	case routeRerank:
		return &s.rerank
	case routeCompact:
		return &s.compact
	case routeCount, routeInputTokens:
		return &s.countTokens
	default:
		return &s.chat
	}
}

// reuse keeps the buffers for the next request.
func (s *shapes) reuse() shapes {
	return shapes{chat: s.chat.reuse(), completions: s.completions.reuse(), responses: s.responses.reuse(), messages: s.messages.reuse()}
}
