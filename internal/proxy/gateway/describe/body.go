package describe

import (
	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Ask describes a call by the head of its body: prompt, longest answer, and the models that may give it. A thing of
// unknown size in the prompt counts as unknown tokens.
func Ask(a *ask.Ask, r *dialect.Route, h *head.Head, unknown int64) {
	a.Model = h.Model
	a.User = h.User
	a.Named = h.Conversation.Named
	a.Instead = nil
	for _, o := range h.Others {
		if o.Instead {
			a.Instead = append(a.Instead, o.Model)
		}
	}
	a.Stream = h.Stream
	a.Tier = h.Tier
	a.Prompt = ask.Prompt{Size: h.Size(unknown), Own: h.Prompt.Size, Apart: h.Prompt.Apart, Before: h.Referred.Tokens, Excerpt: h.Excerpt}
	a.Answer = Answer(r, h)
}

// Answer is how long the answer to a call of a route may become.
func Answer(r *dialect.Route, h *head.Head) ask.Answer {
	return ask.Answer{Bound: h.Bound(r.Bounds), Copies: h.Copies, None: !r.Open && r.Bounds == nil, Open: r.Open, Route: r.Path}
}

// olderBounds are the bounds of chat where servers do not know the newer one.
var olderBounds = []head.Bound{head.MaxTokens, head.MaxCompletionTokens}

// Edits are the changes of a body that its answer has at most so many tokens, and reports its usage, without what its server refuses, and that tiers were lowered.
// Those that add something come last: a bound, and then the usage, of which the chunk that reports it is to be withheld.
func Edits(r *dialect.Route, h *head.Head, most int64, without upstreams.Addition) (edits []splice.Edit, added upstreams.Addition) {
	edits = h.Lowered(edits)
	if r.Bounds != nil && most > 0 {
		names := r.Bounds
		newer := names[0] == head.MaxCompletionTokens
		if newer && without&upstreams.AddedBound != 0 {
			names = olderBounds
		}
		if newer && h.Bound(names) == 0 {
			added |= upstreams.AddedBound &^ without
		}
		edits = h.Clamp(edits, names, most)
	}
	if r.Chunked && h.Stream && without&upstreams.AddedUsage == 0 {
		var asks bool
		edits, asks = h.AskForUsage(edits)
		if asks {
			added |= upstreams.AddedUsage
		}
	}
	return edits, added
}
