package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/adaptive"
)

// sight is what the pool looked like to a call when it was dispatched. The zero value is of
// one that tells nothing of the upstream.
type sight struct {
	atOnce int64 // calls that ran, it included
	full   bool  // no other like it could have gone
}

// adaptLocked brings the pool's limiter to its rules. What it has found out stays.
func (p *pool) adaptLocked() {
	cfg := adaptive.Config{Law: p.rules.Adaptive, Min: p.rules.MinConcurrency, Max: p.rules.Concurrency}
	switch {
	case cfg.Law == adaptive.Fixed:
		p.limiter = nil
	case p.limiter == nil:
		p.limiter = adaptive.New(cfg)
		p.limiter.Begin(p.escrow.InFlight())
	default:
		p.limiter.Configure(cfg)
	}
}

// narrowLocked has as many slots used as the limiter says, or all, and as the process has. Of
// fewer slots than there may be background calls leave at most half of them free, or a large reserve would be all
// there is. Call pumpAndUnlock afterwards, or nobody learns of one more.
func (p *pool) narrowLocked() {
	slots, reserve := p.rules.Concurrency, p.rules.InteractiveReserve
	if p.limiter != nil {
		slots = p.limiter.Limit()
	}
	if slots < p.rules.Concurrency {
		reserve = min(reserve, slots/2)
	}
	open := slots - reserve
	if p.lent != nil {
		slots, open = p.mayHaveLocked(slots)
	}
	p.escrow.Narrow(slots, open)
}

// sightLocked notes what it is like as a call is dispatched, if something can be learned
// from it: what names no model is no work for one.
func (p *pool) sightLocked(st *leaseState) {
	if p.limiter != nil && st.course.kind.Model != "" {
		st.sight = sight{p.escrow.InFlight(), p.fullLocked(st.background)}
	}
}

// fullLocked reports whether no other call could go, by the limit on calls at once, and not because
// others have the rest.
func (p *pool) fullLocked(background bool) bool {
	return !p.escrow.HasSlot(background) && (p.limiter == nil || p.lent == nil || p.limiter.Limit() <= p.lent.part)
}

// observeLocked tells the limiter for how long a call has waited for what it was after, of
// so many tokens. The limit held calls also where others found no slot since: of those that
// come all at once only the last finds the pool full.
func (p *pool) observeLocked(now time.Time, st *leaseState, tokens int64) {
	if p.limiter == nil || st.sight.atOnce == 0 {
		return
	}
	p.limiter.Observe(now, adaptive.Sample{
		Kind:  adaptive.Kind{Model: st.course.kind.Model, Stream: st.stream, Tokens: tokens},
		Began: st.since, Latency: now.Sub(st.since), Running: st.sight.atOnce, Full: st.sight.full || !p.held.Before(st.since),
	})
	p.narrowLocked()
}

// endedLocked tells the limiter of a call's end. The length of a stream is its own, but that of
// an answer that came as a whole is how long its caller has waited. What took no token was
// an error, which comes at once, or no call.
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

// Overloaded tells that the upstream refused the call for want of capacity, or did not
// answer it in time, and that there was no other to send it to. It is called beside what ends
// the lease, or before it is sent again.
func (l Lease) Overloaded() { l.failed(EventOverloaded) }

// Retried tells that the call goes to another upstream, for the one before has failed it: how
// long it takes now is of none of them.
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
	p, now := l.pool, l.g.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.escrow.Running(l.handle) {
		return
	}
	st := &p.leases[l.handle.Slot]
	l.g.record(Event{Kind: how, Call: st.tab.asked})
	if how == EventOverloaded && p.limiter != nil && st.sight.atOnce > 0 {
		p.limiter.Overloaded(now, st.since)
		p.narrowLocked()
	}
	st.sight = sight{}
}
