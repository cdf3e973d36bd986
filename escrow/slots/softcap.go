package slots

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

// demandSoftCap fills in the demand on what the soft cap leaves. Calls that only the soft cap keeps waiting lack no slot. kept are those
// that other rules keep waiting, by tenant.
func (s *Side) demandSoftCap(d *Demand, kept map[escrow.NodeID]int64) {
	if s.rules.SoftCapPPM == 0 {
		return
	}
	c := &d.SoftCap
	c.Each = escrow.CapSlots(d.Together, s.rules.SoftCapPPM)
	c.Lent = d.Together / 2
	unlent := max(0, c.Lent-d.Running-s.grant.Others)
	for _, x := range s.nodes {
		n := s.pool.Node(x.ID)
		if !n.Capped || n.Queued+n.Running == 0 {
			continue
		}
		t := CappedTenant{Name: x.Name, Node: x.ID, Running: int64(n.Running), Waiting: int64(n.Queued) - kept[x.ID]}
		c.Tenants = append(c.Tenants, t)
		beyond := t.Waiting - max(0, c.Each-t.Running-s.grant.cappedElsewhere(x.ID))
		if beyond <= 0 {
			continue
		}
		c.Borrows += min(beyond, unlent)
		d.excuse(s.pool.Top(x.ID), beyond-unlent, int64(n.Later))
	}
	if len(c.Tenants) <= mostCapped {
		c.Others = 1 // its first call needs no answer
		return
	}
	slices.SortStableFunc(c.Tenants, func(a, b CappedTenant) int {
		return cmp.Compare(b.Running+b.Waiting, a.Running+a.Waiting)
	})
	c.Tenants = c.Tenants[:mostCapped]
	c.Others = escrow.CapSlots(s.grant.Slots, s.rules.SoftCapPPM)
}

// cappedElsewhere is how many calls of a tenant run in other processes, as far as is known.
func (g *Grant) cappedElsewhere(tenant escrow.NodeID) int64 {
	if g.SoftCap == nil {
		return 0
	}
	return g.SoftCap.Elsewhere[tenant]
}

// softCaps is the soft cap as granted; nil if nothing is.
func (s *Side) softCaps() *escrow.SoftCaps {
	if s.grant.SoftCap == nil {
		return nil
	}
	return &s.grant.SoftCap.SoftCaps
}

// SoftCap is how many calls the tenant that a leaf belongs to may run in all processes, once no slots are lent any
// more, and how many it does. Without a soft cap both are 0.
func (s *Side) SoftCap(leaf escrow.NodeID) (limit, used int64) {
	tenant, limit, used := s.pool.SoftCap(leaf)
	if tenant == escrow.Root || s.grant.SoftCap == nil {
		return limit, used
	}
	return escrow.CapSlots(s.Together(), s.rules.SoftCapPPM), used + s.grant.cappedElsewhere(tenant)
}

// roomComing reports whether one more call of a leaf may be granted room, or be lent a slot.
func (s *Side) roomComing(leaf escrow.NodeID) bool {
	if s.pool.HeldBack(leaf) {
		limit, used := s.HoldBack(leaf)
		return used < limit
	}
	limit, used := s.SoftCap(leaf)
	_, all := s.InUse()
	tenant, _, _ := s.pool.SoftCap(leaf)
	waiting := int64(s.pool.Node(tenant).Queued)
	return used+waiting <= limit || all+waiting <= s.Together()/2
}
