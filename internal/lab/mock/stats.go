package mock

// Stats are the counters of a Server at one instant. Only calls to the model (chat,
// completions, responses, messages, embeddings, moderations, images, audio) count. Each ends in exactly one way, so
//
//	Requests = Completed + Refused + Errors + Hangups + Cancelled + still in progress
//
// and at rest Admitted = Completed + Hangups + Cancelled + those of Errors that failed in mid-answer,
// less the few callers that left before their request was read.
type Stats struct {
	Requests  int64 `json:"requests"`  // calls that arrived
	Admitted  int64 `json:"admitted"`  // calls that passed the limits
	Refused   int64 `json:"refused"`   // 429s of the server's own limits
	Errors    int64 `json:"errors"`    // all other errors: bad requests, drawn and hooked ones
	Hangups   int64 `json:"hangups"`   // answers the server cut off
	Cancelled int64 `json:"cancelled"` // calls whose client went away, queued or running
	Completed int64 `json:"completed"` // answers produced to their end

	Running     int64 `json:"running"`      // calls in a slot now
	Queued      int64 `json:"queued"`       // calls waiting for a slot now
	PeakRunning int64 `json:"peak_running"` // most ever in a slot at once

	PromptTokens   int64 `json:"prompt_tokens"`   // of all admitted calls
	CachedTokens   int64 `json:"cached_tokens"`   // of these, found in the prefix cache
	OutputTokens   int64 `json:"output_tokens"`   // produced so far, also by calls that were cut off
	TokensProduced int64 `json:"tokens_produced"` // both together

	WindowTokens       int64 `json:"window_tokens"`        // counted in the last 60 s; 0 without TPM
	WindowRequests     int64 `json:"window_requests"`      // counted in the last 60 s; 0 without RPM
	WindowTokensPeak   int64 `json:"window_tokens_peak"`   // largest WindowTokens of any instant
	WindowRequestsPeak int64 `json:"window_requests_peak"` // largest WindowRequests of any instant
}

// Stats returns the counters now.
func (s *Server) Stats() Stats { return s.books.stats() }

// ResetStats zeroes the counters. Running and queued requests and the rolling minute stay, and
// the peaks start again from there.
func (s *Server) ResetStats() { s.books.reset() }
