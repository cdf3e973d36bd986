package governor

import (
	"fmt"
	"strconv"

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
