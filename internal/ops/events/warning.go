package events

import (
	"time"

	"github.com/llmgov/llmgov/governor"
)

// KindBudget is the name of an event that is a Warning.
const KindBudget = "budget"

// Warning is a budget of which a part is used that its WarnAt names.
type Warning struct {
	governor.BudgetState
	Percent int64 // the part
}

// Warnings are the budgets of which somebody was told. The zero value has told nothing. It is for one goroutine.
type Warnings struct {
	told  map[warned]told
	begun bool // the budgets were looked at before
}

// warned names a budget: a tenant's, or without a tenant a pool's.
type warned struct {
	tenant, pool, budget string
}

// told is the highest part of a budget of that limit of which somebody was told, in the period that ends then.
type told struct {
	percent int64
	limit   int64
	resets  time.Time
}

// Look finds the budgets of which another part is used since the last look, and adds events to the ring. Each part is told once a period, and of several at once
// the highest, when calls that have ended have used it: what those in flight hold may come back. What was used before the first look, by an earlier process, was told by that.
func (w *Warnings) Look(now time.Time, s governor.State, to *Ring) {
	seen := map[warned]told{}
	look := func(of warned, list []governor.BudgetState) {
		for _, b := range list {
			if b.Pool != "" && of.tenant != "" { // a tenant's part of a pool's budget
				continue
			}
			of.budget = b.Name()
			last := w.told[of]
			if !last.resets.Equal(b.Resets) || last.limit != b.Limit {
				last = told{limit: b.Limit, resets: b.Resets}
			}
			if percent := b.Passed(b.Used - b.Held); percent > last.percent {
				last.percent = percent
				if w.begun {
					to.add(Event{Event: governor.Event{At: now, Request: governor.Request{Tenant: of.tenant, Pool: of.pool}}, Warning: &Warning{b, percent}})
				}
			}
			seen[of] = last
		}
	}
	for i := range s.Tenants {
		look(warned{tenant: s.Tenants[i].Config.Name}, s.Tenants[i].Budgets)
	}
	for i := range s.Pools {
		look(warned{pool: s.Pools[i].Config.Name}, s.Pools[i].Budgets)
	}
	w.told = seen
	w.begun = true
}
