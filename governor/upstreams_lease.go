package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// UpstreamUse is the use of one of a pool's upstreams.
type UpstreamUse struct {
	Upstream
	// Used is what counts against its limits now.
	Used limits.Limits
	// Calls and Tokens are the sums of all calls that ended there.
	Calls, Tokens int64
}

// Upstreams reports the use of a pool's upstreams; none if they have no limits of their own.
func (g *Governor) Upstreams(pool string) (list []UpstreamUse) {
	now := g.look()
	defer g.unlock()
	v := g.table.pools[pool]
	if v == nil || v.upstreams == nil {
		return nil
	}
	for _, u := range v.upstreams.List {
		list = append(list, UpstreamUse{Upstream: u.Spec, Used: u.Limits.usedNow(now), Calls: u.Ended, Tokens: u.Tokens})
	}
	return list
}

// usedNow is what counts against the limits.
func (u upstreamLimits) usedNow(now time.Time) (used limits.Limits) {
	u.own.advance(now)
	used.Concurrency = u.Set.Used(limits.Concurrency)
	for k := range used.Minute {
		used.Minute[k] = u.Set.Used(limits.Axis(k))
	}
	return used
}

// Used is what counts in all processes against a pool's limits a minute or, if its upstreams have limits of their own, against those of one
// of them. It is -1 of what has no limit, and of everything while nobody knows what other processes use.
func (g *Governor) Used(pool, upstream string) (used limits.Cost) {
	now := g.look()
	defer g.unlock()
	v := g.table.pools[pool]
	if v == nil {
		return used
	}
	for i, e := range v.rates.elsewhere {
		if v.set.Shared && v.rated(i) && now.Sub(e.at) > GrantLasts {
			return limits.Cost{-1, -1, -1, -1}
		}
	}
	books := v.books(now)
	for k, of := range placement.Axes {
		used[of] = books.Axes[k].Used
		if !books.Axes[k].On {
			used[of] = -1
		}
	}
	if v.upstreams != nil {
		if at := v.upstreams.Place(upstream); at >= 0 {
			u := v.upstreams.List[at]
			used = u.Limits.usedNow(now).Minute
			for k, limit := range u.Spec.Limits().Minute {
				if limit == 0 || u.Limits.Shared() && !u.Limits.InForce() {
					used[k] = -1
				}
			}
		}
	}
	return used
}

// Waits reports whether calls wait for more of a pool's limits a minute, or will be back for it.
func (g *Governor) Waits(pool string) bool {
	now := g.look()
	defer g.unlock()
	v := g.table.pools[pool]
	if v == nil {
		return false
	}
	s := v.escrow.State(now)
	return v.escrow.Expected() && !s.Held.After(now) && (s.Slots == 0 || s.Running < s.Slots)
}

// Upstream is the name of the upstream at which the call is counted, and to which it must go; "" if the pool's upstreams have no
// limits of their own.
func (l Lease) Upstream() string {
	if l.pool == nil {
		return ""
	}
	l.g.look()
	defer l.g.unlock()
	return l.upstream()
}

func (l *Lease) upstream() string {
	if l.commitment != nil || !l.pool.escrow.Running(l.handle) {
		return ""
	}
	return l.pool.upstreamOf(l.handle)
}

// Move sends a call on to another upstream among some, by their names (nil is all), because the one where it is failed: spent is
// its usage there, which its end will tell as well, and sent says that it counts as a request there. It returns the name of the
// other one, or false if none of these has room.
func (l Lease) Move(among []string, spent Usage, sent bool) (name string, ok bool) {
	if l.pool == nil || l.commitment != nil {
		return "", false
	}
	p := l.pool
	now := l.g.lock()
	defer l.g.unlock()
	if p.upstreams == nil || !p.escrow.Running(l.handle) {
		return "", false
	}
	requests := int64(0)
	if sent {
		requests = 1
	}
	cost := p.weights.ownCost(spent.Bounded(), requests)
	_, ok = p.escrow.Move(now, l.handle, p.upstreams.Named(among), placement.PoolCost(cost))
	name = p.upstreamOf(l.handle)
	if ok {
		l.g.queueDetail(Event{
			Kind: EventMoved, Call: p.leases[l.handle.Slot].holds.asked, Usage: spent, Sent: sent,
			Upstream: name, Upstreams: among,
		})
	}
	l.g.pump(p, now)
	return name, ok
}

// upstreamsOf are the names of the upstreams to which a call may go; none if they are all of the pool's, or have no limits of their own.
func (g *Governor) upstreamsOf(req *Request) (names []string) {
	v := g.table.pools[req.Pool]
	if v == nil || req.Via == 0 {
		return nil
	}
	listed := req.Listed
	if listed == nil {
		listed = v.names
	}
	for i, name := range listed {
		if req.Via&(1<<i) != 0 && slices.Contains(v.names, name) {
			names = append(names, name)
		}
	}
	if len(names) == len(v.names) {
		return nil
	}
	return names
}
