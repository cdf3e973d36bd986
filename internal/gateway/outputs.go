package gateway

import (
	"sync"

	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/internal/gateway/head"
)

// outputs learns how many tokens answers have where nothing bounds them: pictures, speech,
// transcripts. It is safe for concurrent use.
type outputs struct {
	mu   sync.Mutex
	book *lengths.Book // guarded by mu
}

const (
	// longestOutput is more than any answer has.
	longestOutput = 1 << 20
	// nearlyAll is the part of calls that take no more than is held for the next one.
	nearlyAll = 0.95
	// maxOutputKinds bounds memory, at 9 kB each.
	maxOutputKinds = 1024
)

func newOutputs() *outputs {
	return &outputs{book: lengths.New(lengths.Config{MaxKinds: maxOutputKinds})}
}

// most is how many tokens an answer of that kind has at most, as far as calls have shown; else
// unknown.
func (o *outputs) most(kind lengths.Kind, unknown int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.book.Knows(kind, longestOutput) {
		return unknown
	}
	return o.book.Quantile(kind, longestOutput, nearlyAll)
}

// observe learns from a whole answer.
func (o *outputs) observe(kind lengths.Kind, output int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.book.Start(kind, longestOutput)
	o.book.End(&s, output, true)
}

// outputKind is the kind of a call's answer. One model may serve several routes.
func (c *call) outputKind(r *route, h *head.Head) lengths.Kind {
	return lengths.Kind{Tenant: c.tenant.Name, Tier: c.tenant.Tier, Model: r.Path + " " + h.Model}
}

// mostOutput is how many tokens the answer to a call of a route may have: by the call's own bound, else
// as calls of its kind have shown, and by the pool's default while nothing is known.
func (c *call) mostOutput(r *route, h *head.Head) int64 {
	switch {
	case r.Open:
		return h.Copies * c.world.outputs.most(c.outputKind(r, h), c.pool.DefaultMaxOutput)
	case r.Bounds == nil:
		return 0
	}
	bound := h.Bound(r.Bounds)
	if bound == 0 {
		bound = c.pool.DefaultMaxOutput
	}
	return h.Copies * bound
}

// learnOutput learns from a whole answer. One that reports nothing is charged no output, so that
// none is held for the next ones either.
func (c *call) learnOutput(output int64) {
	if c.route.Open {
		c.world.outputs.observe(c.outputKind(c.route, c.head), output/max(1, c.head.Copies))
	}
}
