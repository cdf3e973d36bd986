package governor

import (
	"fmt"
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

// Amount is n for people: money in dollars, and all else as it is.
func (u Unit) Amount(n int64) float64 {
	if u == UnitMicroUSD {
		return float64(n) / float64(budget.USD)
	}
	return float64(n)
}

// Budget is what may be used in each period of the calendar.
type Budget struct {
	Unit  Unit
	Limit int64
	Per   budget.Period
}

// MaxBudget is the largest limit of a budget.
const MaxBudget = int64(1e15)

// Name tells a budget apart from the others of its owner.
func (b Budget) Name() string { return b.Unit.String() + " per " + b.Per.String() }

// amount formats a number of the budget's units; money in dollars.
func (b Budget) amount(n int64) string {
	if b.Unit != UnitMicroUSD {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d.%06d", n/budget.USD, n%budget.USD)
}

// configureCaps replaces a tenant's budgets by a list. Those that stay keep what was used of them.
func (o *ownLimits) configureCaps(now time.Time, list []Budget, zone *time.Location, r *recall) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.caps
	o.caps = nil
	for _, b := range list {
		i := slices.IndexFunc(was, b.same)
		if i >= 0 && was[i].resize(b) {
			o.caps = append(o.caps, was[i])
			continue
		}
		a := newCap(b, zone, o)
		a.applyGrant()
		if i >= 0 {
			st := was[i].cap.State(now)
			st.Used = a.units(st.Used * was[i].scale)
			a.cap.Restore(now, st)
			a.first = was[i].origin()
			a.began = was[i].began
		} else if r.knows(o.sharing != nil) {
			used, start, last := r.ofTenant(now, o.owner, b)
			a.cap.Restore(now, budget.CapState{Start: start, Used: a.units(used)})
			a.began = last
		}
		o.caps = append(o.caps, a)
	}
}

// same reports whether an account is of the budget of this name.
func (b Budget) same(a *account) bool { return a.Unit == b.Unit && a.Per == b.Per }
