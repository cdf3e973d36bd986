package claims

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/lib/maxmin"
)

// Slots makes claims on the slots of one pool. The zero value has made none.
type Slots struct {
	claims []parts.Claim       // as last made
	bounds []slots.BoundDemand // behind the last of them
}

// all is the name of the claim on all of a pool's slots.
const all = "concurrency"

// Of returns the claims of a demand. A pool without slots has none.
func (s *Slots) Of(d *slots.Demand) []parts.Claim {
	s.claims = make([]parts.Claim, 0, len(s.claims)) // the last ones may still be in transit
	s.bounds = nil
	if d.Slots > 0 {
		s.claimSlots(*d)
	}
	for i := range s.claims {
		s.claims[i].Expect = int64(d.Expect)
	}
	return s.claims
}

// claimSlots adds the claims on slots.
func (s *Slots) claimSlots(d slots.Demand) {
	if d.Fenced { // no call can begin here
		d.Waiting = 0
		d.Background = 0
		d.Returning = 0
	}
	c := stakes(&d, d.Waiting > 0)
	c.Name = all
	c.Kind = parts.Slots
	c.Tail = d.Tail.Milliseconds()
	c.Limit = d.Together
	c.Used = d.Running
	c.Note = d.Note
	want(&c, d.Waiting+d.Returning, slotsAhead(&d), d.Most)
	s.claims = append(s.claims, c)
	s.bounds = d.Bounds
	for i := range d.Bounds {
		s.claims = append(s.claims, boundClaim(&d, &d.Bounds[i]))
	}
}

// boundClaim is the claim on what a rule of slots leaves. If it has no weights, processes that want more
// get equal parts: whose turn it is among tenants shows in the claim on all slots.
func boundClaim(d *slots.Demand, b *slots.BoundDemand) (c parts.Claim) {
	if b.Weighted {
		c = stakes(d, d.Waiting > 0 || b.Waiting > 0)
	}
	c.Name = b.Name
	c.Kind = parts.Slots
	c.Tail = d.Tail.Milliseconds()
	c.Limit = b.Limit
	c.Used = b.Used
	c.Passed = !b.Weighted
	waits := b.Waiting
	if d.Fenced {
		waits = 0
	}
	ahead := int64(0)
	if slotsAhead(d) > 0 {
		ahead = min(b.Ahead, aheadOf(b.Limit, b.Used))
	}
	want(&c, waits, ahead, b.Limit)
	return c
}

// slotsAhead is how many slots are wanted in advance, for calls that may come before the next beat,
// beyond those that become free. It is 0 for a pool that is gone.
func slotsAhead(d *slots.Demand) int64 {
	if !d.Configured || d.Fenced {
		return 0
	}
	return aheadOf(d.Slots, d.Running)
}

// aheadOf is how much more of a limit than is used is wanted in advance.
func aheadOf(limit, used int64) int64 { return 1 + limit/32 + int64(math.Sqrt(float64(used))) }

// want fills in the demand of a claim: waits are the calls that wait or may come back, ahead is wanted in
// advance, and most is the most that could be used here at all.
func want(c *parts.Claim, waits, ahead, most int64) {
	firm := max(c.Used, min(c.Used+waits, most))
	c.Want = max(firm, min(firm+ahead, most))
	c.Spare = c.Want - firm
	if firm > c.Used {
		c.Need = c.Used + 1
	}
}

// stakes fills in the weights of a claim: of those who have all they want if the slots here are shared
// by weight (Calm), and of those who do not (Weight). Calls that wait count if waiting says that they lack these slots.
func stakes(d *slots.Demand, waiting bool) (c parts.Claim) {
	var list []maxmin.Claim
	known := int64(0)
	for _, x := range d.Stakes {
		known += x.Running
		demand := x.Running + x.Returning
		if waiting {
			demand += x.Queued
		}
		if demand > 0 {
			list = append(list, maxmin.Claim{ID: len(list), Weight: float64(x.Weight.Thousandths()), Demand: float64(demand)})
		}
	}
	maxmin.Divide(float64(known), list)
	c.CalmUse = d.Running - known // slots of nodes that are gone
	for i := range list {
		x := &list[i]
		if x.Share < x.Demand {
			c.Weight += int64(x.Weight)
			continue
		}
		c.Calm += int64(x.Weight)
		c.CalmUse += int64(x.Demand)
	}
	return c
}

// Grant is the grant in the answers to the last claims; nil if there is none on all slots.
func (s *Slots) Grant(list []parts.Part) (grant *slots.Grant) {
	list = list[:min(len(list), len(s.claims))]
	if len(s.bounds) < len(s.claims) && len(list) > 0 {
		grant = &slots.Grant{Slots: list[0].Part, Others: list[0].Others, Notes: notes(list[0].Notes)}
	}
	if grant != nil && len(list) == len(s.claims) {
		for i, part := range list[len(list)-len(s.bounds):] {
			grant.Bounds = append(grant.Bounds, slots.BoundGrant{Bound: s.bounds[i].Bound, Slots: part.Part, Others: part.Others})
		}
	}
	return grant
}

// notes are those of other processes on an adaptive limit.
func notes(list []parts.Note) (notes []adaptive.Note) {
	for _, n := range list {
		notes = append(notes, adaptive.Note{Age: time.Duration(n.Age) * time.Millisecond, Text: n.Text})
	}
	return notes
}
