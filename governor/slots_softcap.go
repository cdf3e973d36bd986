package governor

import (
	"cmp"
	"slices"

	"github.com/llmgov/llmgov/escrow"
)

// The soft cap of a pool whose slots are divided over processes. It is a limit of each tenant on its calls in all
// processes, and divided like any other: each process may run a part of them. How many slots are lent to whoever asks is
// such a limit, too, of all calls.

// SoftCapDemand is the demand of this process on what a pool's soft cap leaves.
type SoftCapDemand struct {
	// Each is how many calls of one tenant may run in all processes once none is lent a slot any more; 0 is no soft cap.
	Each int64
	// Lent is how many slots in all processes are lent to whoever asks. Borrows is how many calls here lack one of these.
	Lent, Borrows int64
	// Tenants are those with calls here, or those of them with the most. Others is how many calls may run here of each that is not told of.
	Tenants []CappedTenant
	Others  int64
}

// CappedTenant is the usage and demand of one tenant, with its teams.
type CappedTenant struct {
	Name             string
	Node             escrow.NodeID
	Running, Waiting int64
}

// SoftCapGrant is how a pool's soft cap holds here.
type SoftCapGrant struct {
	escrow.SoftCaps
	// Elsewhere is how many calls of each tenant run in other processes.
	Elsewhere map[escrow.NodeID]int64
}

// mostCapped is how many tenants a process tells of at most: those with the most calls.
const mostCapped = 32

// softCapDemandLocked fills in the demand on what the soft cap leaves. Calls that only the soft cap keeps waiting lack no slot.
func (p *pool) softCapDemandLocked(d *SlotsDemand) {
	if p.rules.SoftCapPPM == 0 {
		return
	}
	c := &d.SoftCap
	c.Each = escrow.CapSlots(d.Together, p.rules.SoftCapPPM)
	c.Lent = d.Together / 2
	unlent := max(0, c.Lent-d.Running-p.grants.Others)
	for _, x := range p.claims.tree.nodes {
		n := p.escrow.Node(x.id)
		if !n.Capped || n.Queued+n.Running == 0 {
			continue
		}
		t := CappedTenant{Name: x.name.name, Node: x.id, Running: int64(n.Running), Waiting: int64(n.Queued)}
		c.Tenants = append(c.Tenants, t)
		beyond := t.Waiting - max(0, c.Each-t.Running-p.grants.cappedElsewhere(x.id))
		if beyond <= 0 {
			continue
		}
		c.Borrows += min(beyond, unlent)
		d.excuse(p.escrow.Top(x.id), beyond-unlent)
	}
	if len(c.Tenants) <= mostCapped {
		c.Others = 1 // its first call needs no answer
		return
	}
	slices.SortStableFunc(c.Tenants, func(a, b CappedTenant) int {
		return cmp.Compare(b.Running+b.Waiting, a.Running+a.Waiting)
	})
	c.Tenants = c.Tenants[:mostCapped]
	c.Others = escrow.CapSlots(p.grants.Slots, p.rules.SoftCapPPM)
}

// excuse takes calls of a node below the pool that lack no slot out of the demand, those that are still in it.
func (d *SlotsDemand) excuse(top escrow.NodeID, calls int64) {
	for i := range d.Stakes {
		s := &d.Stakes[i]
		if s.Node != top {
			continue
		}
		calls = min(max(0, calls), s.Queued)
		s.Queued -= calls
		d.Waiting = max(0, d.Waiting-calls)
	}
}

// cappedElsewhere is how many calls of a tenant run in other processes, as far as is known.
func (l *poolGrants) cappedElsewhere(tenant escrow.NodeID) int64 {
	if l == nil || l.SoftCap == nil {
		return 0
	}
	return l.SoftCap.Elsewhere[tenant]
}

// softCapsLocked is the soft cap as granted; nil if nothing is.
func (l *poolGrants) softCapsLocked() *escrow.SoftCaps {
	if l.SoftCap == nil {
		return nil
	}
	return &l.SoftCap.SoftCaps
}

// softCapLocked is how many calls the tenant that a leaf belongs to may run in all processes, once no slots are lent any
// more, and how many it does. Without a soft cap both are 0.
func (p *pool) softCapLocked(leaf escrow.NodeID) (limit, used int64) {
	tenant, limit, used := p.escrow.SoftCap(leaf)
	if tenant == escrow.Root || p.grants == nil || p.grants.SoftCap == nil {
		return limit, used
	}
	return escrow.CapSlots(p.togetherLocked(), p.rules.SoftCapPPM), used + p.grants.cappedElsewhere(tenant)
}

// lackRoomLocked notes that a call lacks no slot, but room below its tenant's soft cap, or that of its band. The store is asked for
// more of it.
func (p *pool) lackRoomLocked(leaf escrow.NodeID) {
	if l := p.grants; l != nil && !l.lacks && p.roomComingLocked(leaf) {
		l.lacks = true
		l.all.listPool(p)
	}
}

// roomComingLocked reports whether one more call of a leaf may be granted room, or be lent a slot.
func (p *pool) roomComingLocked(leaf escrow.NodeID) bool {
	if p.escrow.HeldBack(leaf) {
		limit, used := p.holdBackLocked(leaf)
		return used < limit
	}
	limit, used := p.softCapLocked(leaf)
	_, all := p.slotsLocked()
	tenant, _, _ := p.escrow.SoftCap(leaf)
	waiting := int64(p.escrow.Node(tenant).Queued)
	return used+waiting <= limit || all+waiting <= p.togetherLocked()/2
}
