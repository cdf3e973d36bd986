package governor

import (
	"fmt"
	"math/big"
	"math/bits"
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

// microUSD is what a usage costs, rounded up.
func (p Price) microUSD(u Usage) int64 {
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
	return Spend{p.cfg.Weights.cost(u), requests, price.microUSD(u)}
}

// expected is what a call will probably take of budgets. It takes the pool's lock.
func (p *pool) expected(t *tenant, req *Request) Spend {
	p.mu.Lock()
	output := p.outputs.ExpectOf(kindOf(t, req), req.Output)
	p.mu.Unlock()
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
	// members are the pool's tenants in the split, by their index.
	members []budget.MemberID

	// What calls in flight hold of the period that ends at ends.
	ends    time.Time
	pending int64
}

// held is what one call holds of one account.
type held struct {
	hold budget.Hold
	ends time.Time
}

func newAccount(b Budget) *account {
	return &account{Budget: b, scale: (b.Limit-1)/budget.MaxLimit + 1}
}

func newCap(b Budget, zone *time.Location) *account {
	a := newAccount(b)
	a.cap = budget.NewCap(b.Limit/a.scale, b.Per, zone)
	return a
}

func newSplit(b Budget, zone *time.Location) *account {
	a := newAccount(b)
	a.split = budget.NewSplit(budget.Config{Limit: b.Limit / a.scale, Period: b.Per, Zone: zone})
	return a
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
	}
}

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
// who has something left until the reset, and the budget is exceeded by one call.
func (a *account) hold(now time.Time, member int, s Spend) (held, budget.Answer) {
	a.advance(now)
	c := min(a.units(s[a.Unit]), a.limit())
	h, ans := a.ask(now, member, c)
	if !ans.OK && a.pending == 0 && ans.Remaining > 0 {
		h, ans = a.ask(now, member, ans.Remaining)
	}
	a.pending += h.Amount()
	return held{h, a.ends}, ans
}

func (a *account) ask(now time.Time, member int, c int64) (budget.Hold, budget.Answer) {
	if a.cap != nil {
		return a.cap.Hold(now, c)
	}
	return a.split.Hold(now, a.members[member], c)
}

// settle ends what a call holds with what it took.
func (a *account) settle(now time.Time, h held, s Spend) {
	a.advance(now)
	if h.ends.Equal(a.ends) {
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
func (a *account) rejection(now time.Time, member int, s Spend, ans budget.Answer, meanRun time.Duration) *Rejection {
	c, used := min(a.units(s[a.Unit]), a.limit()), a.used(now)
	rej := &Rejection{Budget: a.Budget, Resets: a.ends, Limit: a.Limit, Used: used * a.scale, Asked: s[a.Unit]}
	untilReset := a.ends.Sub(now)
	switch {
	case used-a.pending >= a.limit():
		rej.Reason, rej.RetryAfter, rej.Used = ReasonBudget, untilReset, (used-a.pending)*a.scale
	case used+c > a.limit() && a.pending > 0:
		rej.Reason = [units]Reason{UnitTokens: ReasonTokens, UnitRequests: ReasonRequests, UnitMicroUSD: ReasonTokens}[a.Unit]
		if meanRun <= 0 {
			meanRun = time.Second
		}
		rej.RetryAfter = min(meanRun, untilReset)
	default:
		rej.Reason, rej.RetryAfter = ReasonShare, ans.RetryAt.Sub(now)
		rej.Limit, rej.Used = ans.Ceiling*a.scale, a.split.UsedBy(now, a.members[member])*a.scale
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

// tab is what one call holds of budgets, and how the journal knows it. It belongs
// to the call: whoever ends that, ends it.
type tab struct {
	call   uint64 // in the journal; 0 = not there
	price  Price
	spend  Spend     // as expected
	at     time.Time // when it was held
	logged int64     // tokens of a running call that the journal knows of
	// meanRun is how long the tenant's calls ran, when this one came.
	meanRun time.Duration
	caps    []held // as in tenant.caps
	shares  []held // as in pool.shares
}

// open gives an admitted call its tab, and holds its cost of the tenant's own
// budgets, all or none.
func (t *tenant) open(now time.Time, req *Request, s Spend, call uint64) (*tab, *Rejection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b *tab
	if n := len(t.tabs); n > 0 {
		b, t.tabs = t.tabs[n-1], t.tabs[:n-1]
	} else {
		b = &tab{}
	}
	*b = tab{call: call, price: req.Price, spend: s, at: now, meanRun: t.meanRun, caps: b.caps[:0], shares: b.shares[:0]}
	var rej *Rejection
	if b.caps, rej = holdAll(now, t.caps, b.caps, 0, s, b.meanRun); rej != nil {
		t.tabs = append(t.tabs, b)
		rej.Own, rej.Tenant, rej.Pool = true, t.cfg.Name, req.Pool
		return nil, rej
	}
	return b, nil
}

// closeLocked ends a call's tab. Its holds of the pool's budgets have been settled.
func (t *tenant) closeLocked(now time.Time, b *tab, s Spend) {
	settleAll(now, t.caps, b.caps, s)
	t.tabs = append(t.tabs, b)
}

// holdSharesLocked holds a call's cost of the pool's budgets, all or none.
func (p *pool) holdSharesLocked(now time.Time, t *tenant, b *tab) *Rejection {
	var rej *Rejection
	if b.shares, rej = holdAll(now, p.shares, b.shares, t.index, b.spend, b.meanRun); rej != nil {
		rej.Tenant, rej.Pool = t.cfg.Name, p.cfg.Name
	}
	return rej
}

// settleSharesLocked ends what a call holds of the pool's budgets.
func (p *pool) settleSharesLocked(now time.Time, b *tab, s Spend) {
	if b != nil {
		settleAll(now, p.shares, b.shares, s)
		b.shares = b.shares[:0]
	}
}

// holdAll holds s of every account, or of none, and appends the holds to out. Of
// several refusals it returns the worst.
func holdAll(now time.Time, accounts []*account, out []held, member int, s Spend, meanRun time.Duration) ([]held, *Rejection) {
	var worst *Rejection
	for _, a := range accounts {
		h, ans := a.hold(now, member, s)
		switch {
		case !ans.OK:
			worst = worst.worse(a.rejection(now, member, s, ans, meanRun))
		case worst != nil:
			a.settle(now, h, Spend{})
		default:
			out = append(out, h)
		}
	}
	if worst != nil {
		settleAll(now, accounts, out, Spend{})
		out = out[:0]
	}
	return out, worst
}

// settleAll ends the holds of the first accounts, as holdAll made them.
func settleAll(now time.Time, accounts []*account, holds []held, s Spend) {
	for i, h := range holds {
		accounts[i].settle(now, h, s)
	}
}

// newAccounts gives tenants and pools their budgets, with what the past knows of
// them.
func (tb *table) newAccounts(now time.Time, cfg Config) {
	var used map[string]Use
	if cfg.Past != nil {
		used = cfg.Past.Uses.ofTenants()
	}
	for _, t := range tb.inOrder.tenants {
		for _, b := range t.cfg.Budgets {
			a := newCap(b, cfg.Zone)
			if cfg.Past != nil {
				a.restoreCap(now, cfg.Past.Uses.start[b.Per], used[t.cfg.Name].Used[b.Per])
			}
			t.caps = append(t.caps, a)
		}
	}
	for _, p := range tb.inOrder.pools {
		if len(p.cfg.Budgets) == 0 {
			continue
		}
		parts := tb.parts(p)
		for _, b := range p.cfg.Budgets {
			a := newSplit(b, cfg.Zone)
			add := func(i int) budget.MemberID {
				if parts[i] == 0 {
					return budget.MemberID{}
				}
				return a.split.Add(now, tb.inOrder.tenants[i].cfg.Name, parts[i])
			}
			if cfg.Past != nil {
				a.restoreSplit(now, cfg.Past, p.cfg.Name, func(tenant string) {
					if t := tb.tenants[tenant]; t != nil {
						add(t.index)
					}
				})
			}
			for i := range parts {
				a.members = append(a.members, add(i))
			}
			p.shares = append(p.shares, a)
		}
	}
}

// parts are the tenants' parts of a pool when all are busy, by tenant, of
// budget.MaxWeight in all; 0 is for who may not use it.
func (tb *table) parts(p *pool) []int64 {
	top := new(big.Int)             // claims on the pool: of groups, and of who is in none
	groups := map[string]*big.Int{} // claims on each group
	for _, t := range tb.inOrder.tenants {
		if t.leaves[p.index] < 0 {
			continue
		}
		group, claim := t.cfg.Group, int64(t.cfg.Weight)
		if group == "" {
			top.Add(top, big.NewInt(claim))
			continue
		}
		if groups[group] == nil {
			groups[group] = new(big.Int)
			top.Add(top, big.NewInt(int64(t.cfg.GroupWeight)))
		}
		groups[group].Add(groups[group], big.NewInt(claim))
	}
	out := make([]int64, len(tb.inOrder.tenants))
	for i, t := range tb.inOrder.tenants {
		if t.leaves[p.index] < 0 {
			continue
		}
		part, of := big.NewInt(int64(t.cfg.Weight)), new(big.Int).Set(top)
		if t.cfg.Group != "" {
			part.Mul(part, big.NewInt(int64(t.cfg.GroupWeight)))
			of.Mul(of, groups[t.cfg.Group])
		}
		part.Div(part.Mul(part, big.NewInt(budget.MaxWeight)), of)
		out[i] = max(1, part.Int64())
	}
	return out
}
