package sharing

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/maxmin"
)

// Slots speaks for the slots and budgets of one pool. It is for one goroutine.
type Slots struct {
	shared  *governor.SharedSlots
	claims  []parts.Claim          // as last made
	bands   []governor.BandDemand  // behind those on the room of bands
	softCap governor.SoftCapDemand // behind those on the soft cap
	shares  shares                 // behind the last of them
}

var _ runner.RotatingLimits = (*Slots)(nil)

// Owner names the pool to other processes. No tenant's name contains a space.
func (s *Slots) Owner() string { return "pool " + s.shared.Pool() }

// A pool's slots are claimed twice: all of them, and, under the name slotsBackground, those that
// background calls may take. Of the latter only background calls count. So background calls never take the
// slots of the interactive reserve, and interactive calls that fill all others keep no background call out
// whose turn it is.
const slotsBackground = "background"

var slotsAll = limits.Concurrency.String()

// Claims tells how many calls run and wait now, and the usage of budgets. busy is true as long as the
// configuration has the pool, or calls run in it: its slots are always spoken for.
func (s *Slots) Claims(now time.Time) (claims []parts.Claim, busy bool) {
	d := s.shared.Claim(now)
	s.claims = s.claims[:0]
	s.bands = nil
	s.softCap = governor.SoftCapDemand{}
	s.shares = nil
	if !d.Divided { // without a claim the store takes back all grants
		return nil, false
	}
	if d.Slots > 0 {
		s.claimSlots(&d)
	}
	s.shares = d.Shares
	for i := range d.Shares {
		s.claims = append(s.claims, claimShare(&d.Shares[i]))
	}
	return s.claims, d.Configured || d.Running > 0
}

// claimSlots adds the claims on slots.
func (s *Slots) claimSlots(d *governor.SlotsDemand) {
	if d.Fenced { // no call can begin here
		d.Waiting = 0
		d.Background = 0
		d.Returning = 0
	}
	ahead := slotsAhead(d)
	all := slotsClaim(d, slotsAll, d.Waiting > 0)
	all.Limit = d.Together
	all.Used = d.Running
	all.Note = d.Note
	want(&all, d.Waiting+d.Returning, ahead, d.Most)
	s.claims = append(s.claims, all)
	if d.Reserved && !d.Adaptive {
		background := slotsClaim(d, slotsBackground, d.Waiting > 0 || d.Background > 0)
		background.Used = d.RunningBackground
		background.Limit = d.ForBackground
		want(&background, d.Background, ahead, background.Limit)
		s.claims = append(s.claims, background)
	}
	s.claimBands(d)
	s.claimSoftCap(d)
}

// slotsClaim is a claim on slots without amounts. waiting says that calls lack these slots.
func slotsClaim(d *governor.SlotsDemand, name string, waiting bool) parts.Claim {
	c := stakes(d, waiting)
	c.Name = name
	c.Kind = parts.Slots
	c.Tail = d.Tail.Milliseconds()
	return c
}

// slotsAhead is how many slots are wanted in advance, for calls that may come before the next beat,
// beyond those that become free. It is 0 for a pool that is gone.
func slotsAhead(d *governor.SlotsDemand) int64 {
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
func stakes(d *governor.SlotsDemand, waiting bool) (c parts.Claim) {
	var list []maxmin.Claim
	known := int64(0)
	for _, x := range d.Stakes {
		known += x.Running
		demand := x.Running + x.Returning
		if waiting {
			demand += x.Queued
		}
		if demand > 0 {
			list = append(list, maxmin.Claim{ID: len(list), Weight: float64(x.Weight), Demand: float64(demand)})
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

// Apply puts in force the answer to the last claims, which holds until the given time.
func (s *Slots) Apply(now, until time.Time, list []parts.Part) {
	var slots *governor.SlotsGrant
	list = list[:min(len(list), len(s.claims))]
	first := len(s.claims) - len(s.shares) // of the budgets' claims
	for i := range list[:min(len(list), first)] {
		switch s.claims[i].Name {
		case slotsBackground:
			slots.Open = list[i].Part
			slots.OthersBackground = list[i].Others
		case slotsAll:
			slots = &governor.SlotsGrant{Slots: list[i].Part, Others: list[i].Others, Notes: notes(list[i].Notes)}
			slots.Open = slots.Slots // unless those of background calls are claimed separately
		}
	}
	if slots != nil && len(list) >= first {
		capped := first - s.softCapClaims()
		slots.Bands = s.bandGrants(list[capped-len(s.bands) : capped])
		slots.SoftCap = s.softCapGrant(list[capped:first])
	}
	s.shared.Allow(now, until, slots, s.shares.grants(list[min(len(list), first):]))
}

// notes are those of other processes on an adaptive limit.
func notes(list []parts.Note) (notes []governor.Note) {
	for _, n := range list {
		notes = append(notes, governor.Note{Age: time.Duration(n.Age) * time.Millisecond, Text: n.Text})
	}
	return notes
}

// Alone says that nobody answers. Once the grants have expired, and until Apply, the pool goes by its
// configuration for that case (Pool.OnLoss of package governor).
func (s *Slots) Alone(now time.Time) { s.shared.Alone(now) }

// Recalls reports whether earlier processes used something of the pool's budgets that counts now.
func (s *Slots) Recalls(now time.Time) bool { return s.shared.Recalls(now) }

// Recall has it count as used here.
func (s *Slots) Recall(now time.Time) { s.shared.Recall(now) }

// TellAll has the next claims tell of all tenants' shares of the pool's budgets.
func (s *Slots) TellAll() { s.shared.TellAll() }

// Rest reports whether nobody needs to speak for the pool any more: nothing of it is divided, or it is
// gone and nothing runs in it.
func (s *Slots) Rest(time.Time) bool { return s.shared.Rest() }
