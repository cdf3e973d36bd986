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
	upstream string // its name; "" if the pool's upstreams have no limits of their own
	limit    penalty.Limit
}

// Failed reports that the upstream failed the call: by a status of 500 or above, because it did not answer in time, or because its answer
// broke off. Do not report that of a refusal, an error of the caller's, or an upstream that could not be reached. If the call is
// to be sent to another upstream, call it before Move; in any case before the lease is ended. Twice is as good as once.
func (l Lease) Failed() { l.failed(EventFailed) }

// failedLocked takes in that the upstream failed a running call.
func (p *pool) failedLocked(now time.Time, h escrow.Handle, st *leaseState) {
	seat := p.blamedLocked(st)
	at := p.escrow.At(h)
	if seat == nil || at < 0 {
		return
	}
	name := p.nameLocked(at)
	i := slices.IndexFunc(seat.failing, func(f failing) bool { return f.upstream == name })
	if i < 0 {
		i = len(seat.failing)
		seat.failing = append(seat.failing, failing{upstream: name})
	}
	seat.failing[i].limit.Failed(now, st.since, p.escrow.RunningAt(seat.leaf, at))
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
		p.succeededLocked(now, seat, p.escrow.At(h))
	}
	p.restrictLocked(now, seat)
}

// succeededLocked takes in that a call of a seat came to its end at an upstream, or at one that has left (-1).
func (p *pool) succeededLocked(now time.Time, seat *seat, at int) {
	if at < 0 {
		return
	}
	all := p.slots.Limit()
	if p.upstreams != nil && p.upstreams.List[at].Concurrency > 0 {
		all = min(all, p.upstreams.List[at].Concurrency)
	}
	name := p.nameLocked(at)
	for i := range seat.failing {
		if f := &seat.failing[i]; f.upstream == name {
			f.limit.Succeeded(now, p.escrow.RunningAt(seat.leaf, at), all)
		}
	}
}

// blamedLocked is the seat of a call's tenant; nil if failures of its calls have no effect.
func (p *pool) blamedLocked(st *leaseState) *seat {
	if !p.rules.PerTenant {
		return nil
	}
	seat := p.present(st.seat)
	if seat == nil || seat.leaf != st.leaf {
		return nil
	}
	return seat
}

// nameLocked is the name of an upstream, given its index; "" if the pool's upstreams have no limits of their own.
func (p *pool) nameLocked(upstream int) string {
	if p.upstreams == nil {
		return ""
	}
	return p.upstreams.List[upstream].Name
}

// placeLocked is the index of an upstream, given its name; -1 if the pool has none of it.
func (p *pool) placeLocked(name string) int {
	if p.upstreams != nil {
		return p.upstreams.Place(name)
	}
	if name == "" {
		return 0
	}
	return -1
}

// restrictLocked puts the limits of a seat in force, and drops those that are no more, or whose upstream has left. Call pumpAndUnlock
// afterwards.
func (p *pool) restrictLocked(now time.Time, seat *seat) {
	seat.failing = slices.DeleteFunc(seat.failing, func(f failing) bool {
		at := p.placeLocked(f.upstream)
		if at < 0 {
			return true
		}
		most := f.limit.Most(now)
		p.escrow.Restrict(seat.leaf, at, most, f.limit.Ends())
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
		p.escrow.Restrict(seat.leaf, p.placeLocked(f.upstream), 0, time.Time{})
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
