package sharing

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/claims"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
)

// Slots speaks for the slots and budgets of one pool. It is for one goroutine.
type Slots struct {
	shared  *governor.SharedSlots
	slots   claims.Slots
	first   int             // how many claims were on slots, before those on budgets
	budgets []limits.Demand // as last made claims of
}

var _ runner.RotatingLimits = (*Slots)(nil)

// Owner names the pool to other processes.
func (s *Slots) Owner() string { return PoolOwner(s.shared.Pool()) }

// PoolOwner is the owner of a pool's slots and budgets. No tenant's name contains a space.
func PoolOwner(pool string) string { return "pool " + pool }

// Claims tells how many calls run and wait now, and the usage of budgets. busy is true as long as the
// configuration has the pool, or calls run in it: its slots are always spoken for.
func (s *Slots) Claims(now time.Time) (list []parts.Claim, busy bool) {
	d, budgets := s.shared.Claim(now)
	list = s.slots.Of(&d) // without a claim the store takes back all grants
	s.first = len(list)
	for i := range budgets {
		list = append(list, claimOf(&budgets[i], aheadInPool(&budgets[i])))
	}
	s.budgets = budgets
	return list, d.Configured || d.Running > 0
}

// aheadInPool is how much of a pool's budget, or of a member's share of it, is asked for in advance: four calls like the last one, or twice what
// calls have taken since the last claims; and of all of a budget that has anything left, some.
func aheadInPool(d *limits.Demand) int64 {
	return max(min(1, d.Left), d.Left/capShare, 4*d.Last, 2*d.Recent)
}

// Apply puts in force the answer to the last claims, which holds until the given time.
func (s *Slots) Apply(now, until time.Time, list []parts.Part) {
	first := min(len(list), s.first)
	s.shared.Allow(now, until, s.slots.Grant(list[:first]), grantsOf(s.budgets, list[first:]))
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
