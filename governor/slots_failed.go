package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/internal/penalty"
)

// Of a pool that is PerTenant, a tenant or team whose calls the upstream fails may run fewer of them at once for a time (package
// penalty): at one upstream, if the pool's upstreams have limits of their own, or else in the pool. Each process goes by
// the calls that it has sent.

// failing is how many calls of a tenant may run at an upstream that has failed some.
type failing struct {
	upstream int // its index; 0 if the pool's upstreams have no limits of their own
	limit    penalty.Limit
}

// Failed reports that the upstream failed the call: by a status of 500 or above, because it did not answer in time, or because its answer
// broke off. Do not report that of a refusal, an error of the caller's, or an upstream that could not be reached. If the call is
// to be sent to another upstream, call it before Move; in any case before the lease is ended. Twice is as good as once.
func (l Lease) Failed() { l.failed(EventFailed) }

// failedLocked takes in that the upstream failed a running call.
func (p *pool) failedLocked(now time.Time, h escrow.Handle, st *leaseState) {
	seat := p.blamedLocked(st)
	upstream := p.upstreamIndexLocked(h)
	if seat == nil || upstream < 0 {
		return
	}
	i := slices.IndexFunc(seat.failing, func(f failing) bool { return f.upstream == upstream })
	if i < 0 {
		i = len(seat.failing)
		seat.failing = append(seat.failing, failing{upstream: upstream})
	}
	seat.failing[i].limit.Failed(now, st.since, p.escrow.RunningAt(seat.leaf, upstream))
	p.restrictLocked(now, seat)
}

// endsLocked takes in how a running call is about to end.
func (p *pool) endsLocked(now time.Time, h escrow.Handle, u Usage, how Ending) {
	if !p.escrow.Running(h) {
		return
	}
	st := &p.leases[h.Slot]
	seat := p.blamedLocked(st)
	if seat == nil || len(seat.failing) == 0 {
		return
	}
	if how == EndSettled && u != (Usage{}) {
		p.succeededLocked(now, seat, p.upstreamIndexLocked(h))
	}
	p.restrictLocked(now, seat)
}

func (p *pool) succeededLocked(now time.Time, seat *seat, upstream int) {
	all := p.slots.Limit()
	if p.upstreams != nil && upstream >= 0 && p.upstreams.List[upstream].Concurrency > 0 {
		all = min(all, p.upstreams.List[upstream].Concurrency)
	}
	for i := range seat.failing {
		if f := &seat.failing[i]; f.upstream == upstream {
			f.limit.Succeeded(now, p.escrow.RunningAt(seat.leaf, upstream), all)
		}
	}
}

// blamedLocked is the seat of a call's tenant; nil if failures of its calls have no effect.
func (p *pool) blamedLocked(st *leaseState) *seat {
	if !p.rules.PerTenant {
		return nil
	}
	seat := p.seats[st.tenant]
	if seat == nil || seat.leaf != st.leaf {
		return nil
	}
	return seat
}

// upstreamIndexLocked is the upstream at which a running call counts; -1 if that is gone.
func (p *pool) upstreamIndexLocked(h escrow.Handle) int {
	if p.upstreams == nil {
		return 0
	}
	return slices.Index(p.upstreams.List, p.upstreams.At(h.Slot))
}

// restrictLocked puts the limits of a seat in force, and drops those that are no more. Call pumpAndUnlock afterwards.
func (p *pool) restrictLocked(now time.Time, seat *seat) {
	seat.failing = slices.DeleteFunc(seat.failing, func(f failing) bool {
		most := f.limit.Most(now)
		p.escrow.Restrict(seat.leaf, f.upstream, most, f.limit.Ends())
		return most == 0
	})
}

// forgiveLocked drops all limits that failures have left.
func (p *pool) forgiveLocked() {
	for _, seat := range p.seats {
		p.forgiveSeatLocked(seat)
	}
}

func (p *pool) forgiveSeatLocked(seat *seat) {
	for _, f := range seat.failing {
		p.escrow.Restrict(seat.leaf, f.upstream, 0, time.Time{})
	}
	seat.failing = nil
}

// restrictionLocked is how many calls a tenant may run if failures have left it less than the pool at each upstream, and how many it does;
// 0 if they have not.
func (p *poolView) restrictionLocked(v *tenantView) (may, runs int64) {
	if v == nil || v.access[p.index].seat == nil {
		return 0, 0
	}
	return p.escrow.Restriction(&escrow.Call{Leaf: v.access[p.index].seat.leaf, Via: p.upstreams.Mask(0)})
}
