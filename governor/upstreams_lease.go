package governor

import (
	"slices"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// UpstreamUse is the use of one of a pool's upstreams.
type UpstreamUse struct {
	Upstream
	// Used is what counts against its limits now.
	Used Limits
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
		u.Limits.mu.Lock()
		u.Limits.advanceLocked(now)
		set := &u.Limits.set
		used := Limits{RPM: set.Used(limits.Requests), TPM: set.Used(limits.Tokens), Concurrency: set.Used(limits.Concurrency)}
		u.Limits.mu.Unlock()
		list = append(list, UpstreamUse{Upstream: Upstream(u.Spec), Used: used, Calls: u.Ended, Tokens: u.Tokens})
	}
	return list
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

// Move sends a call on to another upstream among some, by their index, because the one where it is failed: spent is
// its usage there, which its end will tell as well, and sent says that it counts as a request there. It returns the name of the
// other one, or false if none of these has room.
func (l Lease) Move(among uint64, spent Usage, sent bool) (name string, ok bool) {
	switch {
	case l.pool == nil || l.commitment != nil:
		return "", false
	case l.g.line == nil:
		return l.move(among, spent, sent)
	}
	l.g.line.instant(func() { name, ok = l.move(among, spent, sent) })
	return name, ok
}

func (l Lease) move(among uint64, spent Usage, sent bool) (name string, ok bool) {
	p := l.pool
	now := l.g.clock.Now()
	p.mu.Lock()
	if p.upstreams == nil || !p.escrow.Running(l.handle) {
		p.mu.Unlock()
		return "", false
	}
	cost := escrow.Cost{escrow.Tokens: p.rules.Weights.cost(spent.bounded())}
	if sent {
		cost[escrow.Requests] = 1
	}
	_, ok = p.escrow.Move(now, l.handle, escrow.Mask(among), cost)
	name = p.upstreamLocked(l.handle)
	if ok {
		l.g.queueDetail(Event{
			Kind: EventMoved, Call: p.leases[l.handle.Slot].tab.asked, Usage: spent, Sent: sent,
			Upstream: name, Upstreams: l.g.upstreamNames(p.name, among),
		})
	}
	l.g.pumpAndUnlock(p, now)
	l.g.deliver()
	return name, ok
}

// upstreamNames are the names of some of a pool's upstreams; none if they are all, or have no limits of their own.
func (g *Governor) upstreamNames(pool string, some uint64) (names []string) {
	v := g.table.Load().pools[pool]
	if v == nil || some == 0 {
		return nil
	}
	for i := range v.cfg.Upstreams {
		if some&(1<<i) != 0 {
			names = append(names, v.cfg.Upstreams[i].Name)
		}
	}
	if len(names) == len(v.cfg.Upstreams) {
		return nil
	}
	return names
}

// Via is the set of a pool's upstreams with some names, as Request.Via has it. It is 0, all, if the pool has none of them.
func (g *Governor) Via(pool string, names []string) (via uint64) {
	v := g.table.Load().pools[pool]
	if v == nil {
		return 0
	}
	for i := range v.cfg.Upstreams {
		if slices.Contains(names, v.cfg.Upstreams[i].Name) {
			via |= 1 << i
		}
	}
	return via
}
