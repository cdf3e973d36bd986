package terms

import (
	"fmt"
	"strconv"
	"strings"
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

	// Units is how many units there are.
	Units = int(iota)
)

func (u Unit) String() string { return [Units]string{"tokens", "requests", "usd"}[u] }

// Amount is n for people: money in dollars, and all else as it is.
func (u Unit) Amount(n int64) float64 {
	if u == UnitMicroUSD {
		return float64(n) / float64(budget.USD)
	}
	return float64(n)
}

// Spend is the cost of a call in budgets, indexed by Unit.
type Spend [Units]int64

// Minus is s without o.
func (s Spend) Minus(o Spend) Spend {
	for k := range s {
		s[k] -= o[k]
	}
	return s
}

// Period is the calendar window of a budget.
type Period = budget.Period

// The periods of budgets.
const (
	Hour  = budget.Hour
	Day   = budget.Day
	Week  = budget.Week
	Month = budget.Month
	Life  = budget.Life
)

// Budget is what may be used in each period of the calendar, or in all.
//
// The Life of a member is over when it has not called for MemberLife.
type Budget struct {
	Unit  Unit
	Limit int64
	Per   Period
	// WarnAt are the parts of it, in percent, of which somebody is told once they are used; 0 is none.
	WarnAt [MaxWarnings]int64 `json:",omitzero"`
	// Background says that it refuses no call: those that come once it is spent go in the background.
	Background bool `json:",omitzero"`
}

// MaxWarnings is how many warnings a budget may have.
const MaxWarnings = 4

// Passed is the highest part, in percent, of which somebody is to be told when so much is used; 0 is none.
func (b Budget) Passed(used int64) (percent int64) {
	for _, at := range b.WarnAt {
		if at > percent && (b.Limit*at+99)/100 <= used {
			percent = at
		}
	}
	return percent
}

// MemberLife is how long a member stays away until nothing of it counts any more, not even for its life.
const MemberLife = 30 * 24 * time.Hour

// MaxBudget is the largest limit of a budget.
const MaxBudget = int64(1e15)

// Name tells a budget apart from the others of its owner.
func (b Budget) Name() string { return b.Unit.String() + " per " + b.Per.String() }

// Same reports whether two budgets count the same over the same period.
func (b Budget) Same(o Budget) bool { return b.Unit == o.Unit && b.Per == o.Per }

// Ending says when the period ends that does so at a time.
func (b Budget) Ending(at time.Time) string {
	if b.Per == Life {
		return "It is for life."
	}
	return "It resets at " + at.Format(time.RFC3339) + "."
}

// Amount formats a number of the budget's units; money as $2.50, with as many decimals as it has.
func (b Budget) Amount(n int64) string {
	if b.Unit != UnitMicroUSD {
		return strconv.FormatInt(n, 10)
	}
	cents := n % budget.USD / 10_000
	rest := strings.TrimRight(fmt.Sprintf("%04d", n%10_000), "0")
	return fmt.Sprintf("$%d.%02d%s", n/budget.USD, cents, rest)
}
