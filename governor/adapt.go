package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
)

// adaptLocked configures the pool's limiter by the pool's rules. What the limiter has found out so
// far is kept.
func (p *pool) adaptLocked() {
	cfg := adaptive.Config{Law: p.rules.Adaptive, Min: p.rules.MinConcurrency, Max: p.rules.Concurrency}
	switch {
	case cfg.Law == adaptive.Fixed:
		p.limiter = nil
	case p.limiter == nil:
		p.limiter = adaptive.NewFleet(cfg)
		p.limiter.Begin(p.escrow.InFlight())
	default:
		p.limiter.Configure(cfg)
	}
}

// resume has an adaptive limit go on where it was when an earlier process ended.
func (p *pool) resume(now time.Time, limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limiter != nil {
		p.limiter.Resume(now, limit)
		p.narrowLocked()
	}
}

// narrowLocked limits the slots in use to what the limiter allows and, where slots are divided over
// processes, to what of them is granted. Call pumpAndUnlock afterwards, because a call that waits may fit
// now.
func (p *pool) narrowLocked() {
	slots := p.slotLimitLocked()
	forBackground := p.forBackground(slots)
	if p.grants != nil {
		slots, forBackground = p.usableSlotsLocked(slots)
	}
	p.escrow.Narrow(slots, forBackground)
	if p.grants != nil {
		p.shareRoomLocked(slots)
		p.escrow.ShareSoftCaps(p.grants.softCapsLocked())
		p.escrow.Expect(p.slotLimitLocked() - p.grants.Others)
	}
}

// forBackground is how many of so many slots background calls may take. If these are fewer than
// configured, the interactive reserve shrinks to at most half of them: a large reserve would otherwise
// leave background calls nothing.
func (p *pool) forBackground(slots int64) escrow.BackgroundSlots {
	reserve := p.rules.InteractiveReserve
	if slots < p.rules.Concurrency {
		reserve = min(reserve, slots/2)
	}
	return escrow.BackgroundSlots{Most: slots - reserve, Free: reserve}
}

// sightLocked notes the state of the pool as a call is dispatched. Calls that name no model are
// skipped: they are no work for a model, and their latency says nothing.
func (p *pool) sightLocked(st *leaseState) {
	if p.limiter != nil && st.course.kind.Model != "" {
		_, used := p.slotsLocked()
		st.sight = sight{used, p.fullLocked(st.leaf, st.background)}
	}
}

// fullLocked reports whether the limit on calls at once keeps a further call from being dispatched. An
// adaptive one does not if the only reason is that other processes have slots that they do not use.
func (p *pool) fullLocked(leaf escrow.NodeID, background bool) bool {
	if !p.escrow.Full(leaf, background) {
		return false
	}
	if p.grants == nil {
		return true
	}
	_, used := p.slotsLocked()
	limit := p.togetherLocked()
	if background && p.rules.InteractiveReserve > 0 {
		limit -= limit / 2 // as much may be reserved in each process
	}
	return used >= limit-limit/8
}

// slotLimitLocked is how many calls may run at once in all processes.
func (p *pool) slotLimitLocked() int64 {
	if p.limiter != nil {
		return p.limiter.Limit()
	}
	return p.rules.Concurrency
}

// roomLocked is how many calls in flight the pool's servers have room for; 0 if they do not say.
func (p *pool) roomLocked(now time.Time) int64 {
	if p.limiter == nil {
		return 0
	}
	return p.limiter.Room(now)
}

// observeLocked gives the limiter one sample of latency: from st.since to now, for a call of so many tokens.
func (p *pool) observeLocked(now time.Time, st *leaseState, tokens int64) {
	if p.limiter == nil || st.sight.atOnce == 0 {
		return
	}
	p.limiter.Observe(now, adaptive.Sample{
		Kind:  adaptive.Kind{Model: st.course.kind.Model, Stream: st.stream, Tokens: tokens},
		Began: st.since, Latency: now.Sub(st.since), Running: st.sight.atOnce, Full: st.sight.full,
	})
	p.narrowLocked()
}

// endedLocked tells the limiter that a call has ended. How long a stream takes is up to the stream,
// but an answer that comes as a whole is a sample of latency. A call that took no tokens is
// ignored: it was an error, which comes at once, or never reached the upstream.
func (p *pool) endedLocked(now time.Time, st *leaseState, u Usage, how Ending) {
	if p.limiter == nil || st.sight.atOnce == 0 || u == (Usage{}) {
		return
	}
	p.limiter.Ended(now.Sub(st.since))
	if how == EndSettled && !st.stream {
		tokens := u.Output
		if tokens == 0 {
			tokens = u.Input
		}
		p.observeLocked(now, st, tokens)
	}
}

// Overloaded reports that the upstream refused the call for want of capacity, or did not answer in
// time, and that no other upstream was left to try. Call it before the lease is ended, or before
// the call is sent again.
func (l Lease) Overloaded() { l.failed(EventOverloaded) }

// Retried reports that the call is sent again, to another upstream because the one before failed it, or
// to the same one because the connection was lost. From then on its latency is not taken for a sample, since it is no single upstream's.
func (l Lease) Retried() { l.failed(EventRetried) }

func (l Lease) failed(how EventKind) {
	switch {
	case l.pool == nil:
	case l.g.line == nil:
		l.failedNow(how)
	default:
		l.g.line.instant(func() { l.failedNow(how) })
	}
}

func (l Lease) failedNow(how EventKind) {
	l.noteFailed(how)
	l.g.deliver()
}

func (l Lease) noteFailed(how EventKind) {
	p := l.pool
	now := l.g.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.escrow.Running(l.handle) {
		return
	}
	st := &p.leases[l.handle.Slot]
	l.g.queueDetail(Event{Kind: how, Call: st.tab.asked})
	if how == EventOverloaded && p.limiter != nil && st.sight.atOnce > 0 {
		p.limiter.Overloaded(now, st.since)
		p.narrowLocked()
	}
	st.sight = sight{}
}
