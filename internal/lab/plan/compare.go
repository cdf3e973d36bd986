package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/decisions"
)

// Compare has logs decided again, by their own policy and by a candidate. Runs in which limits
// were shared are decided together, and each of the others for itself. It takes over the logs.
func Compare(logs []Log, candidate Policy) (*Report, error) {
	if err := checkTwice(logs); err != nil {
		return nil, err
	}
	r := &Report{Flips: []Flip{}, Logs: logReports(logs), Missing: []Missing{}}
	shared, runs := sharedOf(logs)
	r.Alone = len(runs)
	if len(shared) > 0 {
		r.Shared = true
		if err := r.apart(shared); err != nil {
			return nil, err
		}
		fleet := together(shared)
		runs = append(runs, fleet)
		r.Missing = missingFrom(shared, fleet.decidedFrom())
		r.Unwatched = !slices.ContainsFunc(shared, func(r *Run) bool { return len(r.seen) > 0 })
	}
	slices.SortStableFunc(runs, func(a, b *Run) int { return a.begins().Compare(b.begins()) })
	tenants := map[string]*TenantReport{}
	for _, run := range runs {
		if err := r.compare(run, candidate, tenants); err != nil {
			return nil, err
		}
	}
	r.Exact = r.Differ == 0 && r.Inexact == 0 && r.LostLines == 0 && !r.Late && (!r.Shared || r.Granted)
	for _, name := range slices.Sorted(maps.Keys(tenants)) {
		t := tenants[name]
		t.finish()
		r.Tenants = append(r.Tenants, t)
	}
	return r, nil
}

// compare has a run decided again.
func (r *Report) compare(run *Run, candidate Policy, tenants map[string]*TenantReport) error {
	before, err := run.Replay(run.OwnPolicy())
	if err != nil {
		return err
	}
	after, err := run.Replay(candidate)
	if err != nil {
		return err
	}
	r.about(run)
	r.BudgetsFromZero = r.BudgetsFromZero || (run.fleet || run.Late) && (run.budgeted() || budgeted(candidate.Governor.Pools, candidate.Governor.Tenants))
	for i, c := range run.Calls {
		if c.Decided.Outcome == Open {
			continue
		}
		switch {
		case run.fleet && r.Granted:
			if c.Decided.Outcome != before[i].Outcome {
				r.AsOne++
			}
		default:
			r.check(c, &before[i])
		}
		if !c.Request.Forced {
			r.add(tenants, run, c, &before[i], &after[i])
		}
	}
	return nil
}

// apart has runs in which limits were shared decided again, each alone, if all of them have all their grants.
func (r *Report) apart(shared []*Run) error {
	for _, run := range shared {
		if !run.Start.Grants || run.Late || run.Lost > 0 {
			return nil
		}
	}
	r.Granted = true
	for _, run := range shared {
		results, err := run.Replay(run.OwnPolicy())
		if err != nil {
			return err
		}
		for i, c := range run.Calls {
			if c.Decided.Outcome != Open {
				r.check(c, &results[i])
			}
		}
	}
	return nil
}

// check compares a call's decision with that under the log's own policy.
func (r *Report) check(c *Call, again *Result) {
	switch {
	case c.Decided.Outcome != again.Outcome:
		r.Differ++
	case !c.Decided.Same(&again.Decision):
		r.Inexact++
	}
}

// about adds up the reports of runs.
func (r *Report) about(run *Run) {
	if r.From.IsZero() {
		r.From = run.begins()
	}
	if n := len(run.Calls); n > 0 {
		r.Seconds += time.Duration(run.Calls[n-1].At - run.begin).Seconds()
	}
	r.LostLines += run.Lost
	if run.Late {
		r.Late = true
		r.KnownFrom = run.decidedFrom()
	}
	for i := range run.changes {
		if run.changes[i].Kind == decisions.Applied {
			r.Reloads++
		}
	}
}

// budgeted reports whether a policy of the run has a budget.
func (r *Run) budgeted() bool {
	return budgeted(r.Policy.Pools, r.Policy.Tenants) ||
		slices.ContainsFunc(r.changes, func(c change) bool { return c.Policy != nil && budgeted(c.Policy.Pools, c.Policy.Tenants) })
}

func budgeted(pools []governor.Pool, tenants []governor.Tenant) bool {
	return slices.ContainsFunc(pools, func(p governor.Pool) bool { return len(p.Budgets) > 0 }) ||
		slices.ContainsFunc(tenants, func(t governor.Tenant) bool { return len(t.Budgets) > 0 })
}

// add counts a call on both of its ways.
func (r *Report) add(tenants map[string]*TenantReport, run *Run, c *Call, before, after *Result) {
	t := tenants[c.Request.Tenant]
	if t == nil {
		t = &TenantReport{Tenant: c.Request.Tenant, by: map[Refusals]int{}}
		tenants[t.Tenant] = t
	}
	r.Calls++
	if run.takenAsItWas(c) {
		r.Taken++
	}
	t.Calls++
	t.Before.add(before, &t.waits[0])
	t.After.add(after, &t.waits[1])
	if before.Outcome == after.Outcome || before.Outcome == Open {
		return
	}
	switch {
	case after.Outcome == Refused && before.Outcome == Admitted:
		r.NowRefused++
		t.NowRefused++
		t.by[Refusals{Of: whose(after.Why, c), Axis: after.Why.Axis, Reason: after.Why.Reason}]++
	case after.Outcome == Admitted:
		r.NowAdmitted++
		t.NowAdmitted++
	}
	r.Flips = append(r.Flips, Flip{
		Request: c.Request.ID, Tenant: c.Request.Tenant, Model: c.Request.Model, At: run.Start.Time.Add(time.Duration(c.At)),
		Before: before.Outcome, After: after.Outcome, Was: before.Why, Why: after.Why,
	})
}

// whose limit it is.
func whose(why *decisions.Why, c *Call) string {
	if why.Own {
		return why.Tenant
	}
	return "pool " + c.Request.Pool
}
