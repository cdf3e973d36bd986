package governor

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/parts"
)

const (
	// In one beat at most membersTold members of a budget are told of whose calls do not come here;
	// others take their turns. That happens every membersEvery: what is not told stays as it was.
	membersTold  = 100
	membersEvery = 900 * time.Millisecond
	// A member is taken to have calls here until memberRests after its last one.
	memberRests = 5 * time.Second
)

// budgetClaim says what a claim on a budget is about.
type budgetClaim struct {
	*account
	part   *lentPart // nil where the claim only asks what is used elsewhere
	member budget.MemberID
	ofOne  bool // about what the member may use; else about all of the budget
	at     int  // its index among the claims
}

// budgetClaims adds the claims on the pool's budgets. there says that the configuration still has
// the pool.
func (s *SharedSlots) budgetClaims(now time.Time, there bool) {
	s.budgets = s.budgets[:0]
	turn := now.Sub(s.toldAt) >= membersEvery && len(s.p.shares) > 0
	if turn {
		s.orderSeats()
	}
	for i, a := range s.p.shares {
		l := a.lent
		more := int64(0)
		if a.advance(now); l.until.IsZero() {
			l.drop()
		}
		there = there && !l.fenced
		if there {
			more = max(1, (a.limit()-a.split.Counted())/capShare)
		}
		c := l.all.claim(a, a.periodName(), a.split.Here(), a.limit(), more)
		c.Held = min(c.Used, a.pending*a.scale)
		s.add(c, budgetClaim{account: a, part: &l.all})
		s.memberClaims(now, a, there)
		if turn {
			s.otherClaims(now, a, i)
		}
	}
	if turn {
		s.toldAt = now
		s.told = s.told + membersTold
		if s.told >= len(s.order) {
			s.told = 0
		}
	}
}

// memberClaims adds those for the members whose calls come here, and gives up the parts of others.
func (s *SharedSlots) memberClaims(now time.Time, a *account, there bool) {
	for id, m := range a.lent.members {
		name := a.split.Name(id)
		if !there || name == "" || now.Sub(m.at) >= memberRests {
			delete(a.lent.members, id)
			continue
		}
		here := a.split.HereBy(now, id)
		may := a.split.UsedBy(now, id) + a.split.Room(now, id)
		s.add(m.claim(a, memberName(a, name), here, may, 0), budgetClaim{account: a, part: m, member: id, ofOne: true})
	}
}

// otherClaims adds those for members whose turn it is to be told of, on the i-th budget.
func (s *SharedSlots) otherClaims(now time.Time, a *account, i int) {
	for n := range min(len(s.order), membersTold) {
		st := s.order[(s.told+n)%len(s.order)]
		id := st.members[i]
		if here := a.split.HereBy(now, id); a.lent.members[id] == nil {
			s.add(a.lentClaim(memberName(a, st.tenant.name), here, a.limit(), here, 0), budgetClaim{account: a, member: id, ofOne: true})
		}
	}
}

// memberName names a member's claim. No tenant's name contains a space.
func memberName(a *account, tenant string) string { return a.periodName() + " of " + tenant }

func (s *SharedSlots) add(c parts.Claim, of budgetClaim) {
	of.at = len(s.claims)
	s.claims = append(s.claims, c)
	s.budgets = append(s.budgets, of)
}

// orderSeats lists the pool's seats by name, if they have changed.
func (s *SharedSlots) orderSeats() {
	if s.orderOf == s.p.tree {
		return
	}
	s.order = s.order[:0]
	s.orderOf = s.p.tree
	for _, st := range s.p.seats {
		s.order = append(s.order, st)
	}
	slices.SortFunc(s.order, func(a, b *seat) int { return strings.Compare(a.tenant.name, b.tenant.name) })
}

// takeBudgetsLocked takes in the answers to the claims on budgets.
func (s *SharedSlots) takeBudgetsLocked(now time.Time, list []parts.Part) {
	all := map[*account]int64{}
	for _, c := range s.budgets {
		a := c.account
		if a.advance(now); c.at >= len(list) || !strings.HasPrefix(s.claims[c.at].Name, a.periodName()) {
			continue // another period has begun
		}
		got := list[c.at]
		if c.part != nil {
			c.part.part = got.Part / a.scale
		}
		if c.ofOne {
			a.split.Elsewhere(now, c.member, a.units(got.Others))
			continue
		}
		a.othersPending, all[a] = a.units(got.Held), a.units(got.Others)
	}
	for a, others := range all {
		a.split.ElsewhereInAll(now, others)
	}
}
