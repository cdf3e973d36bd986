package events

import (
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
)

// Each part of a budget is told once a period, and none that was used before the process began.
func TestWarnings(t *testing.T) {
	first := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	second := first.AddDate(0, 1, 0)
	ring := NewRing(8)
	var w Warnings
	for i, step := range []struct {
		used, held, limit int64
		resets            time.Time
		want              []int64 // percentages
	}{
		{510, 0, 1000, first, nil}, // of before
		{799, 0, 1000, first, nil},
		{800, 0, 1000, first, []int64{80}},
		{5000, 4201, 1000, first, nil}, // most of it is held
		{1200, 0, 1000, first, []int64{100}},
		{700, 0, 1000, first, nil}, // as if a call gave back what it had used
		{900, 0, 1000, first, nil},
		{0, 0, 1000, second, nil},
		{1000, 0, 1000, second, []int64{100}}, // all at once
		{1000, 0, 4000, second, nil},
		{4000, 0, 4000, second, []int64{100}}, // of the limit that was raised
		{0, 0, 4000, first.AddDate(0, 2, 0), nil},
		{2000, 0, 4000, first.AddDate(0, 2, 0), []int64{50}},
	} {
		b := governor.BudgetState{
			Budget: governor.Budget{Unit: governor.UnitMicroUSD, Limit: step.limit, Per: terms.Month, WarnAt: [terms.MaxWarnings]int64{80, 50, 100}},
			Used:   step.used, Held: step.held, Resets: step.resets,
		}
		quiet := b
		quiet.WarnAt = [terms.MaxWarnings]int64{}
		share := b
		share.Pool = "p"
		from := ring.Next()
		w.Look(first, governor.State{Tenants: []governor.TenantState{{Config: governor.Tenant{Name: "a"}, Budgets: []governor.BudgetState{b, share}}, {Config: governor.Tenant{Name: "b"}, Budgets: []governor.BudgetState{quiet}}}}, ring)
		var got []int64
		reader := ring.Follow(from)
		if ring.Next() > from {
			list, _ := reader.Read(t.Context(), make([]Event, 0, 8))
			for _, e := range list {
				got = append(got, e.Warning.Percent)
				if e.Kind() != KindBudget || e.Request.Tenant != "a" || e.Warning.Used != step.used {
					t.Errorf("step %d tells %+v", i, e)
				}
			}
		}
		reader.Close()
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d tells of %v, want %v", i, got, step.want)
		}
	}
}
