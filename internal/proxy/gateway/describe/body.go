package describe

import (
	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Ask describes a call by the head of its body: prompt, longest answer, and the models that may give it. A thing of
// unknown size in the prompt counts as unknown tokens.
func Ask(a *ask.Ask, r *dialect.Route, h *head.Head, unknown int64) {
	a.Model = h.Model
	a.Instead = nil
	for _, o := range h.Others {
		if o.Instead {
			a.Instead = append(a.Instead, o.Model)
		}
	}
	a.Stream = h.Stream
	a.Prompt = ask.Prompt{Size: h.Size(unknown), Own: h.Prompt.Size, Before: h.Referred.Tokens}
	a.Answer = Answer(r, h)
}

// Answer is how long the answer to a call of a route may become.
func Answer(r *dialect.Route, h *head.Head) ask.Answer {
	return ask.Answer{Bound: h.Bound(r.Bounds), Copies: h.Copies, None: !r.Open && r.Bounds == nil, Open: r.Open, Route: r.Path}
}

// Edits are the changes of a body that its answer has at most so many tokens, and reports its usage. The chunk that
// reports it is to be withheld if the client did not ask for it.
func Edits(r *dialect.Route, h *head.Head, most int64) (edits []splice.Edit, withhold bool) {
	if r.Bounds != nil && most > 0 {
		edits = h.Clamp(edits, r.Bounds, most)
	}
	if r.Chunked && h.Stream {
		return h.AskForUsage(edits)
	}
	return edits, false
}
