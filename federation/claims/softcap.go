package claims

import (
	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/federation/parts"
)

// A pool's soft cap is claimed as several limits: under the name lent the slots that are lent to whoever asks, of which
// all calls count; and then of each tenant the calls that it may run beyond that. So calls of a tenant count wherever they
// run, and what it does not use in one process it can use in another.
const lent = "lent"

// claimSoftCap adds the claims on what the soft cap leaves. None of them has weights, so that processes that want more
// get equal parts: whose turn it is among tenants shows in the claim on all slots.
func (s *Slots) claimSoftCap(d *slots.Demand) {
	s.softCap = d.SoftCap
	if d.SoftCap.Each == 0 {
		return
	}
	s.claims = append(s.claims, roomClaim(d, lent, d.SoftCap.Lent, d.Running, d.SoftCap.Borrows))
	for i := range d.SoftCap.Tenants {
		t := &d.SoftCap.Tenants[i]
		s.claims = append(s.claims, roomClaim(d, "calls of "+t.Name, d.SoftCap.Each, t.Running, t.Waiting))
	}
}

// roomClaim is the claim on a limit that keeps calls out of some of the slots.
func roomClaim(d *slots.Demand, name string, limit, used, waits int64) parts.Claim {
	c := parts.Claim{Name: name, Kind: parts.Slots, Limit: limit, Used: used, Tail: d.Tail.Milliseconds(), Passed: true}
	if d.Fenced {
		waits = 0
	}
	ahead := int64(0)
	if slotsAhead(d) > 0 && name != lent { // what is lent ahead would come on top of the parts of tenants
		ahead = aheadOf(limit, used)
	}
	want(&c, waits, ahead, limit)
	return c
}

// softCapClaims is how many claims there are on what the soft cap leaves.
func (s *Slots) softCapClaims() int {
	if s.softCap.Each == 0 {
		return 0
	}
	return 1 + len(s.softCap.Tenants)
}

// softCapGrant is the grant in the answers to these claims.
func (s *Slots) softCapGrant(list []parts.Part) *slots.SoftCapGrant {
	if len(list) == 0 {
		return nil
	}
	g := &slots.SoftCapGrant{Elsewhere: map[escrow.NodeID]int64{}}
	g.Lent = list[0].Part
	g.Most = map[escrow.NodeID]int64{}
	g.Others = s.softCap.Others
	for i, part := range list[1:] {
		tenant := s.softCap.Tenants[i].Node
		g.Most[tenant] = part.Part
		g.Elsewhere[tenant] = part.Others
	}
	return g
}
