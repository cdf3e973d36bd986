package sharing

import (
	"time"

	"github.com/llmgov/llmgov/federation/claims"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
)

// Slots speaks for the slots and budgets of one pool. It is for one goroutine.
type Slots struct {
	shared *governor.SharedSlots
	slots  claims.Slots
	first  int    // claims on slots, before those on budgets, as last made
	shares shares // behind those on budgets
}

var _ runner.RotatingLimits = (*Slots)(nil)

// Owner names the pool to other processes.
func (s *Slots) Owner() string { return PoolOwner(s.shared.Pool()) }

// PoolOwner is the owner of a pool's slots and budgets. No tenant's name contains a space.
func PoolOwner(pool string) string { return "pool " + pool }

// Claims tells how many calls run and wait now, and the usage of budgets. busy is true as long as the
// configuration has the pool, or calls run in it: its slots are always spoken for.
func (s *Slots) Claims(now time.Time) (list []parts.Claim, busy bool) {
	d := s.shared.Claim(now)
	s.first = 0
	s.shares = nil
	if !d.Divided { // without a claim the store takes back all grants
		return nil, false
	}
	list = s.slots.Of(&d.Demand)
	for i := range list {
		list[i].Expect = int64(d.Expect)
	}
	s.first = len(list)
	s.shares = d.Shares
	for i := range d.Shares {
		list = append(list, claimShare(&d.Shares[i]))
	}
	return list, d.Configured || d.Running > 0
}

// Apply puts in force the answer to the last claims, which holds until the given time.
func (s *Slots) Apply(now, until time.Time, list []parts.Part) {
	list = list[:min(len(list), s.first+len(s.shares))]
	first := min(len(list), s.first)
	s.shared.Allow(now, until, s.slots.Grant(list[:first]), s.shares.grants(list[first:]))
}

// Alone says that nobody answers. Once the grants have expired, and until Apply, the pool goes by its
// configuration for that case (Pool.OnLoss of package governor).
func (s *Slots) Alone(now time.Time, _ bool) { s.shared.Alone(now) }

// Recalls reports whether earlier processes used something of the pool's budgets that counts now.
func (s *Slots) Recalls(now time.Time) bool { return s.shared.Recalls(now) }

// Recall has it count as used here.
func (s *Slots) Recall(now time.Time) { s.shared.Recall(now) }

// TellAll has the next claims tell of all tenants' shares of the pool's budgets.
func (s *Slots) TellAll() { s.shared.TellAll() }

// Rest reports whether nobody needs to speak for the pool any more: nothing of it is divided, or it is
// gone and nothing runs in it.
func (s *Slots) Rest(time.Time) bool { return s.shared.Rest() }
