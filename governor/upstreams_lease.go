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
	v := g.table.Load().pools[pool]
	if v == nil {
		return nil
	}
	now := g.clock.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.upstreams == nil {
		return nil
	}
	for _, u := range v.upstreams.List {
		list = append(list, UpstreamUse{Upstream: u.Spec, Used: u.Limits.used(now), Calls: u.Ended, Tokens: u.Tokens})
	}
	return list
}

// used is what counts against the limits.
func (u upstreamLimits) used(now time.Time) (used limits.Limits) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.advanceLocked(now)
	used.Concurrency = u.set.Used(limits.Concurrency)
	for k := range used.Minute {
		used.Minute[k] = u.set.Used(limits.Axis(k))
	}
	return used
}

// Used is what counts in all processes against a pool's limits a minute or, if its upstreams have limits of their own, against those of one
// of them. It is -1 of what has no limit, and of everything while nobody knows what other processes use.
func (g *Governor) Used(pool, upstream string) (used limits.Cost) {
	v := g.table.Load().pools[pool]
	if v == nil {
		return used
	}
	now := g.clock.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, e := range v.rates.elsewhere {
		if v.set.Shared && v.ratedLocked(i) && now.Sub(e.at) > GrantLasts {
			return limits.Cost{-1, -1, -1, -1}
		}
	}
	books := v.booksLocked(now)
	for k, of := range placement.Axes {
		used[of] = books.Axes[k].Used
		if !books.Axes[k].On {
			used[of] = -1
		}
	}
	if v.upstreams != nil {
		if at := v.upstreams.Place(upstream); at >= 0 {
			used = v.upstreams.List[at].Limits.used(now).Minute
			for k, limit := range v.upstreams.List[at].Spec.Limits().Minute {
				if limit == 0 {
					used[k] = -1
				}
			}
		}
	}
	return used
}

// Upstream is the name of the upstream at which the call is counted, and to which it must go; "" if the pool's upstreams have no
// limits of their own.
func (l Lease) Upstream() string {
	if l.pool == nil || l.commitment != nil {
		return ""
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if !l.pool.escrow.Running(l.handle) {
		return ""
	}
	return l.pool.upstreamLocked(l.handle)
}

// Move sends a call on to another upstream among some, by their names (nil is all), because the one where it is failed: spent is
// its usage there, which its end will tell as well, and sent says that it counts as a request there. It returns the name of the
// other one, or false if none of these has room.
func (l Lease) Move(among []string, spent Usage, sent bool) (name string, ok bool) {
	switch {
	case l.pool == nil || l.commitment != nil:
		return "", false
	case l.g.line == nil:
		return l.move(among, spent, sent)
	}
	l.g.line.instant(func() { name, ok = l.move(among, spent, sent) })
	return name, ok
}

func (l Lease) move(among []string, spent Usage, sent bool) (name string, ok bool) {
	p := l.pool
	now := l.g.clock.Now()
	p.mu.Lock()
	if p.upstreams == nil || !p.escrow.Running(l.handle) {
		p.mu.Unlock()
		return "", false
	}
	requests := int64(0)
	if sent {
		requests = 1
	}
	cost := p.weights.ownCost(spent.Bounded(), requests)
	_, ok = p.escrow.Move(now, l.handle, p.upstreams.Named(among), placement.PoolCost(cost))
	name = p.upstreamLocked(l.handle)
	if ok {
		l.g.queueDetail(Event{
			Kind: EventMoved, Call: p.leases[l.handle.Slot].holds.asked, Usage: spent, Sent: sent,
			Upstream: name, Upstreams: among,
		})
	}
	l.g.pumpAndUnlock(p, now)
	l.g.deliver()
	return name, ok
}

// upstreamsOf are the names of the upstreams to which a call may go; none if they are all of the pool's, or have no limits of their own.
func (g *Governor) upstreamsOf(req *Request) (names []string) {
	v := g.table.Load().pools[req.Pool]
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
