package gateway

import (
	"fmt"
	"time"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
)

// Pool shows a pool, as far as the governor does not know it, with its upstreams.
func (g *Gateway) Pool(name string, now time.Time) (adminapi.Pool, bool) {
	shown, known := g.View.Pool(name, now)
	p, ok := g.world.Load().poolNamed(name)
	if !known || !ok {
		return adminapi.Pool{}, false
	}
	shown.Upstreams = p.upstreamViews(now)
	return shown, true
}

// Conditions are what is wrong with upstreams that are not left out.
func (g *Gateway) Conditions(now time.Time) (list []adminapi.Condition) {
	for _, p := range g.world.Load().pools {
		for _, m := range p.set.Members {
			s := m.State(now)
			for _, f := range foreign(m.Name, &s) {
				if f.Used*10 > f.Limit {
					list = append(list, adminapi.Condition{
						Kind: adminapi.UpstreamForeign, Severity: adminapi.Warning, Pool: p.Name, Upstream: m.Name,
						Message: fmt.Sprintf("Upstream %s of pool %s: others with its key use %d %% of its %s.", m.Name, p.Name, 100*f.Used/f.Limit, f.Key),
					})
				}
			}
			since, waiting, silent := m.Silent(now)
			if !silent {
				continue
			}
			list = append(list, adminapi.Condition{
				Kind: adminapi.UpstreamSilent, Severity: adminapi.Warning, Since: &since, Pool: p.Name, Upstream: m.Name,
				Message: fmt.Sprintf("Upstream %s of pool %s: no answer for %.0f s, %d calls wait for it.", m.Name, p.Name, now.Sub(since).Seconds(), waiting),
			})
		}
	}
	return list
}

// upstreamViews shows the pool's upstreams.
func (p *poolSide) upstreamViews(now time.Time) []adminapi.Upstream {
	var out []adminapi.Upstream
	for i, m := range p.set.Members {
		s := m.State(now)
		v := adminapi.Upstream{Name: m.Name, Kind: p.upstreams[i].Provider.Kind, Weight: m.Weight, Order: m.Order, State: "up"}
		switch {
		case s.Busy:
			v.State = "busy"
		case s.Probing:
			v.State = "probing"
		case !s.Up:
			v.State = "open"
		}
		if s.Retry.After(now) && !s.Probing {
			v.Until = &s.Retry
		}
		if !s.Since.IsZero() {
			v.Since = &s.Since
			v.Cause = s.Cause
		}
		v.TPM = declared(s.Declared[upstreams.Tokens])
		v.RPM = declared(s.Declared[upstreams.Requests])
		v.ITPM = declared(s.Declared[upstreams.Input])
		v.OTPM = declared(s.Declared[upstreams.Output])
		v.ForeignRatio = largest(foreign(m.Name, &s))
		out = append(out, v)
	}
	return out
}

// Explain adds to an explanation what others use of the pool's upstreams.
func (g *Gateway) Explain(q *adminapi.Question) (*adminapi.Explanation, error) {
	x, err := g.View.Explain(q)
	if err != nil {
		return x, err
	}
	if p, ok := g.world.Load().poolNamed(x.Pool); ok {
		for _, m := range p.set.Members {
			s := m.State(time.Now())
			x.Foreign = append(x.Foreign, foreign(m.Name, &s)...)
		}
	}
	return x, nil
}

// foreign is what others use of the limits that an upstream declares.
func foreign(name string, s *upstreams.State) (list []adminapi.ForeignUse) {
	for _, of := range upstreams.Limited {
		if n := s.Foreign[of]; n > 0 {
			list = append(list, adminapi.ForeignUse{Upstream: name, Key: of.Key(), Limit: s.ForeignOf[of], Used: n})
		}
	}
	return list
}

// largest is the largest part that others use.
func largest(list []adminapi.ForeignUse) (part float64) {
	for _, f := range list {
		part = max(part, float64(f.Used)/float64(f.Limit))
	}
	return part
}

// declared is a limit that an upstream declared; nil if it did not.
func declared(limit int64) *int64 {
	if limit == 0 {
		return nil
	}
	return &limit
}
