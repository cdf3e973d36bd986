package instance

import (
	"testing"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/governor"
)

// A store is new if it had no data before: it says so, or it grants at once because nobody else is expected.
func TestIsNew(t *testing.T) {
	for _, c := range []struct {
		reply  federation.Reply
		expect int
		want   bool
	}{
		{federation.Reply{Status: federation.Learning, Epoch: 5000, Now: 5000}, 2, true},
		{federation.Reply{Status: federation.Learning, Epoch: 5000, Now: 35_000}, 0, true},
		{federation.Reply{Status: federation.Learning, Epoch: 5000, Now: 5000, Lost: true}, 2, false},
		{federation.Reply{Status: federation.Granted, Epoch: 5000, Now: 5300}, 1, true},
		{federation.Reply{Status: federation.Granted, Epoch: 5000, Now: 65_000}, 1, false},
		{federation.Reply{Status: federation.Granted, Epoch: 5000, Now: 5300}, 2, false},
		{federation.Reply{Status: federation.Fenced, Epoch: 5000, Now: 5000}, 1, false},
	} {
		if got := isNew(&c.reply, c.expect); got != c.want {
			t.Errorf("%+v, %d expected: %t", c.reply, c.expect, got)
		}
	}
}

// Budgets begin anew if nothing is known of any.
func TestUnknownBudgets(t *testing.T) {
	monthly := func(used int64) governor.BudgetState {
		return governor.BudgetState{Budget: governor.Budget{Unit: governor.UnitMicroUSD, Per: budget.Month, Limit: 100}, Used: used}
	}
	tenant := func(name string, used int64) governor.TenantState {
		return governor.TenantState{Config: governor.Tenant{Name: name}, Budgets: []governor.BudgetState{monthly(used)}}
	}
	pool := governor.PoolState{Config: governor.Pool{Name: "p"}, Budgets: []governor.BudgetState{monthly(0)}}
	for name, c := range map[string]struct {
		state governor.State
		n     int
		first string
	}{
		"none":      {governor.State{}, 0, ""},
		"unknown":   {governor.State{Tenants: []governor.TenantState{tenant("a", 0), tenant("b", 0)}, Pools: []governor.PoolState{pool}}, 3, monthly(0).Name() + " of tenant a"},
		"of a pool": {governor.State{Pools: []governor.PoolState{pool}}, 1, monthly(0).Name() + " of pool p"},
		"known":     {governor.State{Tenants: []governor.TenantState{tenant("a", 0), tenant("b", 1)}, Pools: []governor.PoolState{pool}}, 0, ""},
	} {
		if n, first := unknownBudgets(&c.state); n != c.n || first != c.first {
			t.Errorf("%s: %d, %q", name, n, first)
		}
	}
}
