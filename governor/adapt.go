package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/slots"
)

// How calls teach an adaptive limit.

// slotRules are the rules of the pool's slots.
func (p *pool) slotRules() slots.Rules {
	return slots.Rules{
		Slots: p.rules.Concurrency, Adaptive: p.rules.Adaptive, Least: p.rules.MinConcurrency,
		Loss: p.rules.Loss(max(p.rates.nodes, p.rules.ExpectNodes)),
	}
}

// resume has an adaptive limit go on where it was when an earlier process ended.
func (p *pool) resume(now time.Time, limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots.Resume(now, limit)
}

// seeLocked notes the state of the pool as a call is dispatched. Calls that name no model are
// skipped: they are no work for a model, and their latency says nothing. Nor does that of calls of which their tenants tell.
func (p *pool) seeLocked(st *leaseState) {
	if st.course.kind.Model != "" && st.holds.belief.by == "" {
		st.sight = p.slots.See(st.leaf, st.background)
	}
}

// roomLocked is how many calls in flight the pool's servers have room for; 0 if they do not say.
func (p *pool) roomLocked(now time.Time) int64 {
	if p.slots.Limiter == nil {
		return 0
	}
	return p.slots.Limiter.Room(now)
}

// observeLocked gives the limiter one sample of latency: from st.since to now, for a call of so many tokens.
func (p *pool) observeLocked(now time.Time, st *leaseState, tokens int64) {
	p.slots.Observe(now, st.since, adaptive.Kind{Model: st.course.kind.Model, Stream: st.stream, Tokens: tokens}, st.sight)
}

// endedLocked tells the limiter that a call has ended. How long a stream takes is up to the stream,
// but an answer that comes as a whole is a sample of latency. A call that took no tokens is
// ignored: it was an error, which comes at once, or never reached the upstream.
func (p *pool) endedLocked(now time.Time, st *leaseState, u Usage, how Ending) {
	if p.slots.Limiter == nil || st.sight == (slots.Sight{}) || u == (Usage{}) {
		return
	}
	if p.escrow.Claimant(st.leaf) != p.overload.by {
		p.overload.denied = now
	}
	p.slots.Limiter.Ended(now.Sub(st.since))
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
	l.g.queueDetail(Event{Kind: how, Call: st.holds.asked})
	if how == EventFailed {
		if p.blamesLocked(st) {
			p.escrow.Failed(now, l.handle, st.since)
		}
		return
	}
	if by := p.escrow.Claimant(st.leaf); how == EventOverloaded && p.overload.says(now, by) {
		p.slots.Overloaded(now, st.since, st.sight)
	}
	st.sight = slots.Sight{}
}

// overload is who said last that the upstream has more to do than it can.
type overload struct {
	by     escrow.NodeID // a tenant, with its teams
	denied time.Time     // when another one's call was served last
}

// deniedFor is how long nobody is believed alone whom a served call denies: a tenant can make its own calls late.
const deniedFor = time.Minute

// says notes that a tenant says so, and reports whether it is believed.
func (o *overload) says(now time.Time, tenant escrow.NodeID) bool {
	if tenant != o.by {
		*o = overload{by: tenant}
	}
	return now.Sub(o.denied) >= deniedFor
}
