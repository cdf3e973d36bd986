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
		Slots: p.rules.Concurrency, Adaptive: p.rules.Adaptive, Least: p.rules.MinConcurrency, Instance: p.instance,
		Loss: p.rules.Loss(max(p.rates.nodes, p.rules.ExpectNodes)),
	}
}

// resume has an adaptive limit go on where it was when an earlier process ended.
func (p *pool) resume(now time.Time, limit int64) {
	p.slots.Resume(now, limit)
}

// see notes the state of the pool as a call is dispatched. Calls that name no model are
// skipped: they are no work for a model, and their latency says nothing. Nor does that of calls of which their tenants tell.
func (p *pool) see(st *leaseState) {
	if st.course.kind.Model != "" && st.holds.belief.by == "" {
		st.sight = p.slots.See(st.leaf, st.background)
	}
}

// room is how many calls in flight the pool's servers have room for; 0 if they do not say.
func (p *pool) room(now time.Time) int64 {
	if p.slots.Limiter == nil {
		return 0
	}
	return p.slots.Limiter.Room(now)
}

// observe gives the limiter one sample of latency: from st.since to now, for a call of so many tokens.
func (p *pool) observe(now time.Time, st *leaseState, tokens int64) {
	p.slots.Observe(now, st.since, adaptive.Kind{Model: st.course.kind.Model, Stream: st.stream, Tokens: tokens}, st.sight)
}

// ended tells the limiter that a call has ended. How long a stream takes is up to the stream,
// but an answer that comes as a whole is a sample of latency. A call that took no tokens is
// ignored: it was an error, which comes at once, or never reached the upstream.
func (p *pool) ended(now time.Time, st *leaseState, u Usage, how Ending) {
	if p.slots.Limiter == nil || st.sight == (slots.Sight{}) || !u.Took() {
		return
	}
	p.slots.Limiter.Ended(now.Sub(st.since))
	if how != EndSettled {
		return
	}
	if p.escrow.Claimant(st.leaf) != p.lateness.of {
		p.lateness.denied = now
	}
	if !st.stream {
		tokens := u.Output
		if tokens == 0 {
			tokens = u.Input
		}
		p.observe(now, st, tokens)
	}
}

// Overloaded reports that the upstream refused the call for want of capacity, and that no other upstream was left to try. Call it before
// the lease is ended, or before the call is sent again.
func (l Lease) Overloaded() { l.failed(EventOverloaded) }

// Late is Overloaded for a call that was not answered in time.
func (l Lease) Late() { l.failed(EventLate) }

// Retried reports that the call is sent again, to another upstream because the one before failed it, or
// to the same one because the connection was lost. From then on its latency is not taken for a sample, since it is no single upstream's.
func (l Lease) Retried() { l.failed(EventRetried) }

func (l Lease) failed(how EventKind) {
	p := l.pool
	if p == nil {
		return
	}
	now := l.g.lock()
	defer l.g.unlock()
	if !p.escrow.Running(l.handle) {
		return
	}
	st := &p.leases[l.handle.Slot]
	l.g.queueDetail(Event{Kind: how, Call: st.holds.asked})
	if how == EventFailed {
		if p.blames(st) {
			p.escrow.Failed(now, l.handle, st.since)
		}
		return
	}
	if how == EventOverloaded || how == EventLate && p.lateness.counts(now, p.escrow.Claimant(st.leaf)) {
		p.slots.Overloaded(now, st.since, st.sight)
	}
	st.sight = slots.Sight{}
}

// lateness is whose call was late last.
type lateness struct {
	of     escrow.NodeID // a tenant, with its teams
	denied time.Time     // when another one's call was served last
}

// deniedFor is how long the calls of one tenant do not count that are late beside a served one: a tenant can make its own calls late.
const deniedFor = time.Minute

// counts notes that a tenant's call was late, and reports whether that counts.
func (l *lateness) counts(now time.Time, tenant escrow.NodeID) bool {
	if tenant != l.of {
		*l = lateness{of: tenant}
	}
	return now.Sub(l.denied) >= deniedFor
}
