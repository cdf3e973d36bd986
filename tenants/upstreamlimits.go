package tenants

import (
	"fmt"
	"slices"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// An upstream of a pool may have limits of its own. A pool that does not have the same limit itself then has their sum.

// UpstreamsLimited reports whether any of the pool's upstreams has a limit of its own.
func (p *Pool) UpstreamsLimited() bool {
	return slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool { return terms.Any(&u) })
}

// Limited reports whether the pool has any limit.
func (p *Pool) Limited() bool { return terms.Any(p) }

// capacityFields are the short keys of limits of which 0 is none, of some axes. about has a place for what is limited.
func capacityFields[T any, P interface {
	*T
	terms.Limited
}](about string, axes []terms.Axis) (list []field[T]) {
	for _, k := range axes {
		at := func(t *T) *int64 { return P(t).Amount(k) }
		list = append(list, strictyaml.AmountField(k.Key(), fmt.Sprintf(about, inMinute(k)), 0, maxAmount, at))
	}
	return list
}

// limitFields are those of which 0 is refused, of all axes.
func limitFields[T any, P interface {
	*T
	terms.Limited
}](about string) (list []field[T]) {
	for _, k := range terms.Axes {
		list = append(list, limitField(k.Key(), fmt.Sprintf(about, inMinute(k)), func(t *T) *int64 { return P(t).Amount(k) }))
	}
	return list
}

// inMinute is what a short key limits.
func inMinute(k terms.Axis) string {
	if k == terms.Concurrency {
		return k.Unit()
	}
	return k.Unit() + " in a rolling minute"
}

// upstreamLimits gives a pool the limits that follow from its upstreams', and checks that they go together with the rest.
func (c *compiler) upstreamLimits(p *Pool, path string) {
	if !p.UpstreamsLimited() {
		return
	}
	for _, k := range terms.Axes {
		sum := int64(0)
		without := -1
		for i := range p.Upstreams {
			limit := *p.Upstreams[i].Amount(k)
			sum += limit
			if limit == 0 {
				without = i
			}
		}
		limit := p.Amount(k)
		switch {
		case *limit > 0 || sum == 0 || c.r.Refused[strictyaml.Child(path, k.Key())]:
		case without >= 0:
			c.r.At(path, "has no %s, and neither has its upstream %s, while others have one, so nothing says how much there is to share; write %s in either",
				k.Key(), strictyaml.Show(p.Upstreams[without].Name), k.Key())
		default:
			*limit = min(sum, maxAmount)
		}
	}
	if at := strictyaml.Child(path, "on_store_loss"); p.OnLoss != terms.LossClosed && c.cfg.Store != "memory" {
		c.r.At(at, "is %s, which does not go together with limits of upstreams yet: a gateway that is cut off would not know how much of each is left; write closed, or remove the limits",
			p.OnLoss)
	}
}
