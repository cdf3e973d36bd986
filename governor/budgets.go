package governor

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
)

// Unit is what a budget counts.
type Unit int

// The units of budgets: tokens as the pool weighs them, requests, and money in
// millionths of a US dollar.
const (
	UnitTokens Unit = iota
	UnitRequests
	UnitMicroUSD

	units = int(iota)
)

func (u Unit) String() string { return [units]string{"tokens", "requests", "usd"}[u] }

// Budget is what may be used in each period of the calendar.
type Budget struct {
	Unit  Unit
	Limit int64
	Per   budget.Period
}

// MaxBudget is the largest limit of a budget.
const MaxBudget = int64(1e15)

// Name tells a budget from the others of its owner.
func (b Budget) Name() string { return b.Unit.String() + " per " + b.Per.String() }

// amount writes a number of the budget's units, money in dollars.
func (b Budget) amount(n int64) string {
	if b.Unit != UnitMicroUSD {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d.%06d", n/budget.USD, n%budget.USD)
}

// Price is what tokens of a model cost, in millionths of a US dollar a million
// tokens: 2_500_000 is $2.50.
type Price struct{ Input, CachedInput, Output int64 }

// MicroUSD is what a usage costs, rounded up.
func (p Price) MicroUSD(u Usage) int64 {
	cached := min(u.CachedInput, u.Input)
	var hi, lo, carry uint64
	for _, part := range [...][2]int64{{u.Input - cached, p.Input}, {cached, p.CachedInput}, {u.Output, p.Output}} {
		// Both are bounded by maxTokens, so that the sum is below 10²⁵.
		h, l := bits.Mul64(uint64(part[0]), uint64(part[1]))
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	lo, carry = bits.Add64(lo, 999_999, 0)
	usd, _ := bits.Div64(hi+carry, lo, 1_000_000)
	return int64(usd)
}

func (p Price) bounded() Price {
	return Price{bounded(p.Input), bounded(p.CachedInput), bounded(p.Output)}
}

// Spend is what a call takes of budgets, by Unit.
type Spend [units]int64

func (p *pool) spend(u Usage, requests int64, price Price) Spend {
	return Spend{p.rules.Weights.cost(u), requests, price.MicroUSD(u)}
}

// expected is what a call will probably take of budgets, also for who only looks. It takes
// the pool's lock.
func (p *pool) expected(v *tenantView, req *Request, looks bool) Spend {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookLocked(looks)
	defer p.lookLocked(false)
	output := p.outputs.ExpectOf(kindOf(v, req), req.Output)
	s := p.spend(Usage{Input: req.Input, Output: output}, 1, req.Price)
	s[UnitTokens] = max(1, s[UnitTokens]) // a spent budget bars also who declares nothing
	return s
}

// account is one budget with its books. It is guarded by the lock of its owner, a
// tenant or a pool.
//
// Package budget counts up to budget.MaxLimit. Of a limit above that, which only
// money reaches, it counts in units of scale: calls rounded up, the limit down.
type account struct {
	Budget
	scale int64
	cap   *budget.Cap   // of a tenant
	split *budget.Split // of a pool, over its tenants
	of    *quota        // of which it is a budget; nil of a pool's

	// What calls in flight hold of the period that ends at ends.
	ends    time.Time
	pending int64

	// Where a tenant's budget is kept together with other processes: the part that this
	// one may have, what counts in the others, what of that calls in flight there hold, and
	// what the last call was expected to take. All in the books' units.
	part, others, othersPending, last int64
	known                             int64 // elsewhere as used here
	noRoom                            noRoom

	lent *lentAccount // of a pool's budget that is split over processes; else nil
}

// nobody is the member that asks where there are none.
var nobody = func(int) budget.MemberID { return budget.MemberID{} }

// held is what one call holds of one account: that of then, though a reload may have
// put another in its place.
type held struct {
	*account
	hold budget.Hold
	till time.Time
}

func newAccount(b Budget) *account {
	return &account{Budget: b, scale: (b.Limit-1)/budget.MaxLimit + 1}
}

func newCap(b Budget, zone *time.Location, of *quota) *account {
	a := newAccount(b)
	a.of, a.cap = of, budget.NewCap(b.Limit/a.scale, b.Per, zone)
	return a
}

func newSplit(b Budget, zone *time.Location, l *lent) *account {
	a := newAccount(b)
	if l != nil {
		a.lent = &lentAccount{lent: l, members: map[budget.MemberID]*lentPart{}}
	}
	a.split = budget.NewSplit(budget.Config{Limit: b.Limit / a.scale, Period: b.Per, Zone: zone})
	return a
}

// clone copies an account with its books.
func (a *account) clone() *account {
	c := *a
	if a.cap != nil {
		books := *a.cap
		c.cap = &books
	} else {
		c.split = a.split.Clone()
	}
	return &c
}

// resize changes the limit of an account of the same name, and reports whether that
// can be done: not, where the books would have to count in other units.
func (a *account) resize(b Budget) bool {
	if newAccount(b).scale != a.scale {
		return false
	}
	a.Budget = b
	if a.cap != nil {
		a.limitCap()
	} else {
		a.split.SetLimit(b.Limit / a.scale)
	}
	return true
}

// advance moves to now: what was held of a period that is over stands in nobody's
// way any more.
func (a *account) advance(now time.Time) {
	ends := time.Time{}
	if a.cap != nil {
		ends = a.cap.ResetAt(now)
	} else {
		ends = a.split.ResetAt(now)
	}
	if !ends.Equal(a.ends) {
		a.ends, a.pending = ends, 0
		if a.of != nil && a.of.common != nil {
			a.part, a.others, a.othersPending, a.known = 0, 0, 0, 0
			a.limitCap()
		}
		if a.lent != nil {
			a.othersPending, a.lent.all.told = 0, 0
			a.lent.drop()
		}
	}
}

// unitReasons are why a call is refused that lacks room in a budget which is not spent.
var unitReasons = [units]Reason{UnitTokens: ReasonTokens, UnitRequests: ReasonRequests, UnitMicroUSD: ReasonTokens}

// units turns an amount into what the books count, rounded up.
func (a *account) units(n int64) int64 { return (n + a.scale - 1) / a.scale }

// limit is what the books count to.
func (a *account) limit() int64 { return a.Limit / a.scale }

// used is what counts in the present period, settled and held, in the books' units.
func (a *account) used(now time.Time) int64 {
	if a.cap != nil {
		return a.cap.Used(now)
	}
	return a.split.Used(now)
}

// hold sets aside what a call is expected to take, for the member of a split that
// asks. An expectation is a guess, and most so at the start, when nothing is learned
// because nothing has ended: if nothing is in flight that could give anything back,
// a call of which there is no room for all goes with what is left. So no guess bars
// who has something left until the reset, and the budget is exceeded by one call. What is
// left of a part is not meant: there is more elsewhere.
func (a *account) hold(now time.Time, member budget.MemberID, s Spend) (held, budget.Answer) {
	a.advance(now)
	c := min(a.units(s[a.Unit]), a.limit())
	h, ans := a.ask(now, member, c)
	if !ans.OK && a.inFlight() == 0 && ans.Remaining > 0 && !a.short() {
		h, ans = a.ask(now, member, ans.Remaining)
	}
	a.pending += h.Amount()
	a.last = c
	return held{a, h, a.ends}, ans
}

func (a *account) ask(now time.Time, member budget.MemberID, c int64) (budget.Hold, budget.Answer) {
	if a.cap != nil {
		return a.cap.Hold(now, c)
	}
	if a.lent != nil {
		return a.askLent(now, member, c)
	}
	return a.split.Hold(now, member, c)
}

// settle ends what a call holds with what it took.
func (a *account) settle(now time.Time, h held, s Spend) {
	a.advance(now)
	if h.till.Equal(a.ends) {
		a.pending -= h.hold.Amount()
	}
	if a.cap != nil {
		a.cap.Settle(now, h.hold, a.units(s[a.Unit]))
	} else {
		a.split.Settle(now, h.hold, a.units(s[a.Unit]))
	}
}

// rejection explains why a call was not let in, by what it would take to be:
//
//   - What is settled is all there was: the budget is spent, and the call is to come
//     back in the next period.
//   - Calls in flight hold what it needs: soon they end.
//   - It is reserved for others, whose claims fade with time.
func (a *account) rejection(now time.Time, member budget.MemberID, s Spend, ans budget.Answer, meanRun time.Duration) *Rejection {
	c, used, inFlight := min(a.units(s[a.Unit]), a.limit()), a.usedByAll(now), a.inFlight()
	rej := &Rejection{Budget: a.Budget, Resets: a.ends, Limit: a.Limit, Used: used * a.scale, Asked: s[a.Unit]}
	untilReset := a.ends.Sub(now)
	switch {
	case a.short():
		return a.lacksPart(now, c)
	case used-inFlight >= a.limit():
		rej.Reason, rej.RetryAfter, rej.Used = ReasonBudget, untilReset, (used-inFlight)*a.scale
	case used+c > a.limit() && inFlight > 0:
		rej.Reason = unitReasons[a.Unit]
		if meanRun <= 0 {
			meanRun = time.Second
		}
		rej.RetryAfter = min(meanRun, untilReset)
	default:
		rej.Reason, rej.RetryAfter = ReasonShare, ans.RetryAt.Sub(now)
		rej.Limit, rej.Used = ans.Ceiling*a.scale, a.split.UsedBy(now, member)*a.scale
	}
	rej.RetryAfter = max(rej.RetryAfter, time.Millisecond)
	return rej
}

// worse is the refusal that takes longer to go away, and that names what does.
func (r *Rejection) worse(o *Rejection) *Rejection {
	if r == nil || o.Reason == ReasonBudget && r.Reason != ReasonBudget || (o.Reason == ReasonBudget) == (r.Reason == ReasonBudget) && o.RetryAfter > r.RetryAfter {
		return o
	}
	return r
}

// holdSharesLocked holds a call's cost of the pool's budgets, all or none.
func (p *pool) holdSharesLocked(now time.Time, st *seat, b *tab) *Rejection {
	var rej *Rejection
	member := func(i int) budget.MemberID { return st.members[i] }
	if b.parts, rej = holdAll(now, p.shares, b.parts, member, b); rej != nil {
		rej.Tenant = st.tenant.name
		if rej.Elsewhere && p.lent.until.IsZero() {
			p.lostLocked(now, rej)
		}
	}
	return rej
}

// settleSharesLocked ends what a call holds of the pool's budgets.
func (p *pool) settleSharesLocked(now time.Time, b *tab, s Spend) {
	for _, h := range b.parts {
		h.settle(now, h, s)
	}
	b.parts = b.parts[:0]
}

// holdAll holds what a call will probably spend of every account, or of none, and
// appends the holds to out. Of several refusals it returns the worst. A shadow holds
// what there is.
func holdAll(now time.Time, accounts []*account, out []held, member func(i int) budget.MemberID, b *tab) ([]held, *Rejection) {
	var worst *Rejection
	before := len(out)
	for i, a := range accounts {
		h, ans := a.hold(now, member(i), b.spend)
		switch {
		case ans.OK && (worst == nil || b.shadow):
			out = append(out, h)
		case ans.OK:
			a.settle(now, h, Spend{})
		default:
			switch {
			case !a.short():
			case a.of != nil:
				a.of.lackLocked(ownCost{})
			default:
				a.lackLocked()
			}
			if !b.shadow || !a.short() { // else it would have waited
				worst = worst.worse(a.rejection(now, member(i), b.spend, ans, b.meanRun))
			}
			if b.shadow {
				h.hold, _ = a.ask(now, member(i), 0)
				out = append(out, h)
			}
		}
	}
	switch {
	case worst == nil:
		return out, nil
	case b.shadow:
		b.note(worst)
		return out, nil
	}
	for _, h := range out[before:] {
		h.settle(now, h, Spend{})
	}
	return out[:before], worst
}

// configureCaps brings a tenant's budgets to a list. What was used of those that stay
// counts on.
func (q *quota) configureCaps(now time.Time, list []Budget, zone *time.Location, past *Past) {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.caps
	q.caps = nil
	for _, b := range list {
		i := slices.IndexFunc(was, b.same)
		if i >= 0 && was[i].resize(b) {
			q.caps = append(q.caps, was[i])
			continue
		}
		a := newCap(b, zone, q)
		a.limitCap()
		if i >= 0 {
			st := was[i].cap.State(now)
			st.Used = a.units(st.Used * was[i].scale)
			a.cap.Restore(now, st)
		} else if past != nil && q.common == nil {
			a.restoreCap(now, past.Uses.start[b.Per], past.usedBy(q.owner).Used[b.Per])
		}
		q.caps = append(q.caps, a)
	}
}

// same reports whether an account is of a budget of this name.
func (b Budget) same(a *account) bool { return a.Unit == b.Unit && a.Per == b.Per }

// restated is how a pool's budget stands between its tenants, in other units.
func (a *account) restated(now time.Time, scale int64) budget.SplitState {
	st := a.split.State(now)
	st.Gone = st.Gone * a.scale / scale
	for i := range st.Members {
		st.Members[i].Used = st.Members[i].Used * a.scale / scale
	}
	return st
}

// partOf is weight/sum of part, and at least 1.
func partOf(part, weight, sum int64) int64 {
	hi, lo := bits.Mul64(uint64(part), uint64(weight))
	q, _ := bits.Div64(hi, lo, uint64(sum))
	return max(1, int64(q))
}

// unused reports whether nothing counts in any of the accounts.
func unused(now time.Time, accounts []*account) bool {
	return !slices.ContainsFunc(accounts, func(a *account) bool { return a.used(now) > 0 })
}
