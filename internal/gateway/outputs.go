package gateway

import (
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/gateway/route"
)

// outputKind is the kind of a call's answer. One model may serve several routes.
func (c *call) outputKind(r *route.Route, h *head.Head) lengths.Kind {
	return lengths.Kind{Tenant: c.tenant.Name, Tier: c.tenant.Tier, Model: r.Path + " " + h.Model}
}

// mostOutput is how many tokens the answer to a call of a route may have: by the call's own bound, else
// as calls of its kind have shown, and by the pool's default while nothing is known.
func (c *call) mostOutput(r *route.Route, h *head.Head) int64 {
	switch {
	case r.Open:
		return h.Copies * c.world.MostOutput(c.outputKind(r, h), c.pool.DefaultMaxOutput)
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
		c.world.LearnOutput(c.outputKind(c.route, c.head), output/max(1, c.head.Copies))
	}
}
