package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/rounds"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
)

// noteEvents tells the governor and the log of changes of an upstream.
func (g *Gateway) noteEvents(p *poolSide, m *upstreams.Member, of upstreams.Scope, e upstreams.Events) {
	g.tellHealth(p)
	about := []any{slog.String("pool", p.Name), slog.String("upstream", m.Name)}
	now := time.Now()
	if e.Opened {
		g.log.Warn("upstream fails, and is left out", append(about, slog.Float64("probed_in_seconds", m.State(now).Retry.Sub(now).Seconds()))...)
	}
	if e.Closed {
		g.log.Info("upstream works again", about...)
	}
	if e.Paused {
		g.log.Warn("upstream asks for a pause", append(about, slog.String("model", text.Brief(of.Model)), slog.String("class", of.Class), slog.Float64("seconds", e.Until.Sub(now).Seconds()))...)
	}
}

// tellHealth tells the governor which part of a pool is missing because of its upstreams.
func (g *Gateway) tellHealth(p *poolSide) {
	g.telling.Lock()
	defer g.telling.Unlock()
	g.tellHealthLocked(p)
}

func (g *Gateway) tellHealthLocked(p *poolSide) {
	p, there := g.world.Load().poolNamed(p.Name)
	if !there {
		return // the call has outlived its pool
	}
	var cuts []governor.Cut
	now := time.Now()
	limits := terms.Minute(p)
	for _, c := range p.set.Cuts(now, limits) {
		cuts = append(cuts, governor.Cut{
			Part: c.Part, TPM: c.Less[upstreams.Tokens], RPM: c.Less[upstreams.Requests], ITPM: c.Less[upstreams.Input], OTPM: c.Less[upstreams.Output],
			Paced: c.Paced, Upstream: c.Upstream, Until: c.Until,
		})
	}
	below := p.set.Below(now, limits)
	g.gov.Throttle(p.Name, cuts)
	if below != g.declared[p.Name] {
		g.declared[p.Name] = below
		g.log.Info("limits that upstreams declare", "pool", p.Name, "tpm_below_configured", below[upstreams.Tokens], "rpm_below_configured", below[upstreams.Requests],
			"itpm_below_configured", below[upstreams.Input], "otpm_below_configured", below[upstreams.Output])
	}
}

// Watch lets the limits of pools move that do, until ctx ends.
func (g *Gateway) Watch(ctx context.Context) error {
	move := func() {
		w := g.world.Load()
		for _, p := range w.pools {
			g.moveLimits(p)
		}
		for _, p := range g.shareAccounts(w) {
			g.tellHealth(p)
		}
	}
	move()
	rounds.Every(ctx, time.Second/4, move)
	return nil
}

// shareAccounts divides accounts between their pools, and returns those that share one.
func (g *Gateway) shareAccounts(w *world) (pools []*poolSide) {
	for _, a := range w.accounts {
		if len(a.Pools) == 1 {
			a.Share(time.Now(), nil)
			continue
		}
		claims := g.claims(w, a)
		for i, at := range a.Pools {
			claims[i].Waits = g.gov.Waits(w.pools[at.Pool].Name)
		}
		a.Share(time.Now(), claims)
		for _, at := range a.Pools {
			pools = append(pools, w.pools[at.Pool])
		}
	}
	return pools
}

// moveLimits takes in what moves a pool's limits.
func (g *Gateway) moveLimits(p *poolSide) {
	if !p.set.Moves() {
		return
	}
	used := g.gov.Used(p.Name, "")
	if slices.Max(used[:]) < 0 { // the store is lost: a refusal counts once it is known what was used
		g.tellHealth(p) // a limit that was left to others is not any more
		return
	}
	if p.set.Look(time.Now(), used, p.Overloaded.Swap(false)) {
		g.tellHealth(p)
	}
}

// Learned is what the gateway has learned of the limits of pools' upstreams, by pool.
func (g *Gateway) Learned() map[string]upstreams.Lessons {
	all := map[string]upstreams.Lessons{}
	for _, p := range g.world.Load().pools {
		all[p.Name] = p.set.Learned()
	}
	return all
}

// Recall takes in what an earlier process had Learned, as JSON; nil is nothing. Call it before calls come.
func (g *Gateway) Recall(text []byte) {
	if text == nil {
		return
	}
	var all map[string]upstreams.Lessons
	if err := json.Unmarshal(text, &all); err != nil {
		g.log.Warn("state_dir: what was learned of upstreams' limits cannot be read, and is learned anew", "error", err)
		return
	}
	for _, p := range g.world.Load().pools {
		p.set.Recall(time.Now(), all[p.Name])
		g.tellHealth(p)
	}
}

// look takes in what an answer of a pool's upstream says is left for a model. It reports whether the limits that count may have changed.
func (g *Gateway) look(pool *poolSide, m *upstreams.Member, model string, left *upstreams.Remains, refused bool) (news bool) {
	w := g.world.Load()
	a, i := w.accountOf(pool, m.Account)
	if a == nil {
		return false
	}
	late := time.Duration(0)
	if pool.set.Shared {
		late = limits.NewsTravel
	}
	return a.Look(time.Now(), i, m, model, left, g.claims(w, a), late, refused)
}

// noteTaken tells the account of the last try what of it the call took.
func (c *call) noteTaken() {
	if c.try.up == nil || !c.try.Sent.Load() || !c.Ending.Done {
		return
	}
	if a, i := c.g.world.Load().accountOf(c.pool, c.try.up.Account); a != nil && a.Several() { // else without locks
		a.Took(time.Now(), c.Admitted, i, c.realModel(), c.Lease.Took(c.Ending.Last))
	}
}

// accountOf is an account that a pool's upstream has, and the place that the pool has there; nil if they are gone.
func (w *world) accountOf(pool *poolSide, account string) (a *upstreams.Account, place int) {
	if a := w.accounts[account]; a != nil {
		for i, at := range a.Pools {
			if w.pools[at.Pool].Name == pool.Name {
				return a, i
			}
		}
	}
	return nil, 0
}

// claims are what the pools at an account have used.
func (g *Gateway) claims(w *world, a *upstreams.Account) (all []upstreams.Claim) {
	for _, at := range a.Pools {
		p := w.pools[at.Pool]
		var c upstreams.Claim
		for i, m := range at.Members {
			if i > 0 && !p.set.Limited() { // the use of each is that of the whole pool
				continue
			}
			for k, n := range g.gov.Used(p.Name, m.Name) {
				if n < 0 {
					n = unknown
				}
				c.Used[k] += n
			}
		}
		all = append(all, c)
	}
	return all
}

// unknown is below 0, whatever is added to it.
const unknown = -1 << 50

// upstreamStates are the gateway's beliefs about all upstreams, for the metrics.
func (g *Gateway) upstreamStates() []telemetry.UpstreamState {
	var out []telemetry.UpstreamState
	now := time.Now()
	for _, p := range g.world.Load().pools {
		own := g.gov.Upstreams(p.Name)
		for _, m := range p.set.Members {
			s := m.State(now)
			one := telemetry.UpstreamState{Pool: p.Name, Upstream: m.Name, Up: s.Up, Busy: s.Busy, Tries: map[string]int64{}}
			for i, n := range m.Tries() {
				one.Tries[upstreams.Outcome(i).String()] = n
			}
			if list := foreign(m.Name, &s); s.Declared != (upstreams.Told{}) {
				one.Foreign = map[string]int64{}
				one.ForeignPart = largest(list)
				for _, of := range upstreams.Limited {
					if of != upstreams.Requests && s.Declared[of] > 0 {
						one.Foreign[of.String()] = s.Foreign[of]
					}
				}
			}
			for _, u := range own {
				if u.Name == m.Name {
					one.Limit = byAxis(u.Limits())
					one.Used = byAxis(u.Used)
					one.Tokens = u.Tokens
				}
			}
			out = append(out, one)
		}
	}
	return out
}

// byAxis are limits, or their use, by the axes of the metrics, without those that are 0.
func byAxis(l limits.Limits) map[string]int64 {
	out := map[string]int64{}
	for k, n := range l.Minute {
		if n > 0 {
			out[limits.Axis(k).String()] = n
		}
	}
	if l.Concurrency > 0 {
		out[limits.Concurrency.String()] = l.Concurrency
	}
	return out
}
