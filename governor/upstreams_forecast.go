package governor

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// UpstreamForecast is how one of a pool's upstreams, which have limits of their own, stands to a call.
type UpstreamForecast struct {
	Upstream
	Standing placement.Standing
	// Lacks is the limit that has no room for the call, or is smaller than it. It has no Axis if the Standing is for
	// another reason; its Wait is that until the upstream may take the call, as far as it is known.
	Lacks Check
}

// goes reports whether the call of a forecast goes at once: that of a shadow does whatever the limits say.
func (p *prospect) goes(o *Forecast) bool {
	if p.tenant.cfg.Shadow {
		return o.Refused == nil || o.Refused.Reason != ReasonDraining
	}
	return o.Refused == nil && o.Wait == 0
}

// foretellUpstreams adds how the pool's upstreams stand to a call, and where it goes if its pool lets it go now. If they are
// what the call waits for, rather than the pool's own limits, it returns how long until the first has room, as far as it is known.
func (p *prospect) foretellUpstreams(call *escrow.Call, ans escrow.Answer, o *Forecast) (lacking time.Duration) {
	pool := p.pool.pool
	if pool.upstreams == nil {
		return 0
	}
	of := pool.escrow.Choices(p.now, call)
	first := time.Duration(math.MaxInt64)
	for i := range pool.upstreams.List {
		u := p.upstream(i, call.Via, of)
		o.Upstreams = append(o.Upstreams, u)
		first = min(first, u.waits())
	}
	switch {
	case ans.Verdict == escrow.Admitted:
		o.Upstream = pool.upstreams.List[ans.Upstream].Name
	case p.tenant.cfg.Shadow:
		o.Upstream = pool.upstreams.List[pool.escrow.ForetellForced(p.now, *call)].Name
	}
	if of.Fits || first >= ans.Wait {
		return first
	}
	return 0
}

// waits is how long it takes until the upstream has room for the call, as far as it is known.
func (u *UpstreamForecast) waits() time.Duration {
	switch u.Standing {
	case placement.HasRoom:
		return 0
	case placement.NotAllowed, placement.TooSmall:
		return math.MaxInt64
	}
	return max(u.Lacks.Wait, time.Millisecond)
}

// upstream is how the index-th upstream stands to a call that may use those of via.
func (p *prospect) upstream(index int, via escrow.Mask, of escrow.Choices) UpstreamForecast {
	books := p.pool.pool.upstreams
	u := books.List[index]
	standing, axis := books.Standing(p.now, index, via, of)
	out := UpstreamForecast{Upstream: u.Spec, Standing: standing}
	cost := placement.CostOf(of.Cost)
	switch standing {
	case placement.TooSmall:
		axis = limits.Tokens
		for k, part := range u.Limits.Clip(cost) {
			if part < cost[k] {
				axis = limits.Axis(k)
			}
		}
		out.Lacks = u.Limits.check(p.now, axis, cost)
		out.Lacks.Asked = cost[axis]
		out.Lacks.Wait = 0
	case placement.Full:
		out.Lacks = u.Limits.check(p.now, axis, cost)
	case placement.Closed:
		out.Lacks.Wait = u.Closed.Sub(p.now)
	}
	return out
}
