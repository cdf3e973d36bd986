package explain

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// explainLimits lists the limits, the strictest first: those in the way by how long that takes,
// then the others by how often the call would still fit. decider is the index of the one that
// decides, if any.
func explainLimits(snap *tenants.Snapshot, o *governor.Forecast) (list []adminapi.ExplainedLimit, decider *int) {
	checks := slices.Clone(o.Checks)
	slices.SortStableFunc(checks, func(a, b governor.Check) int {
		return cmp.Or(
			-cmp.Compare(a.Wait, b.Wait),
			-compareBool(decides(o, &a), decides(o, &b)),
			cmp.Compare(scarcity(&a), scarcity(&b)),
		)
	})
	list = []adminapi.ExplainedLimit{}
	for i := range checks {
		if decider == nil && decides(o, &checks[i]) {
			decider = &i
		}
		list = append(list, explainLimit(snap, &checks[i]))
	}
	return list, decider
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// scarcity is how often the call would fit into the rest of a limit.
func scarcity(c *governor.Check) float64 {
	if c.Asked <= 0 {
		return math.Inf(1)
	}
	return float64(c.Limit-c.Used) / float64(c.Asked)
}

// decides reports whether the call would be refused by c or, if it would not be refused, would wait
// for c.
func decides(o *governor.Forecast, c *governor.Check) bool {
	rej := o.Refused
	if rej == nil {
		return o.Wait > 0 && c.Wait > 0
	}
	return c.Of(rej)
}

func explainLimit(snap *tenants.Snapshot, c *governor.Check) adminapi.ExplainedLimit {
	unit := c.Budget.Unit
	used := unit.Amount(c.Used)
	left := unit.Amount(max(0, c.Limit-c.Used))
	wait := c.Wait.Seconds()
	l := adminapi.ExplainedLimit{
		Of: cmp.Or(c.Tenant, c.Pool), Kind: adminapi.KindLimit, Pool: c.Pool, Axis: c.Axis,
		Limit: unit.Amount(c.Limit), Used: &used, Asked: unit.Amount(c.Asked), Left: &left, Wait: &wait,
	}
	switch {
	case c.Budget.Limit > 0:
		l.Kind = adminapi.KindBudget
	case c.Tenant == "":
		l.Kind = adminapi.KindPool
	}
	for _, p := range snap.Pools() {
		if p.Name == c.Pool && p.Adapts() && l.Kind == adminapi.KindPool && l.Axis == "concurrency" {
			l.Most = float64(p.Concurrency)
			l.Room = float64(c.Room)
		}
	}
	l.Key, l.From = written(snap, c)
	return l
}

// limitKey is the key of an axis in files.
func limitKey(axis string) string {
	if k, ok := terms.FindAxis(axis); ok {
		return k.Key()
	}
	if axis == "background" {
		return "interactive_reserve"
	}
	return axis
}

// written is the key of a limit in files, and where it is written.
func written(snap *tenants.Snapshot, c *governor.Check) (key, from string) {
	var list []tenants.Limit
	var budgets []tenants.Budget
	var windows []tenants.Window
	in := "" // the key of the limits in one pool
	key = limitKey(c.Axis)
	if c.Budget.Limit > 0 {
		key = "budgets"
	}
	pools := snap.Pools()
	at := slices.IndexFunc(pools, func(p tenants.Pool) bool { return p.Name == c.Pool })
	owner, member, is := terms.CutMember(c.Tenant)
	t, ok := snap.TenantByName(owner)
	if is && ok && t.Members != nil {
		return snap.MemberOrigin(t, member, key, time.Now())
	}
	if ok {
		p := &pools[max(0, at)] // any pool will do for a limit over all of them
		list = snap.Limits(t, p)
		budgets = t.Budgets
		windows = t.Windows
		if at >= 0 {
			in = "pools." + c.Pool + "."
			windows = t.LimitsIn(p).Windows
		}
	} else {
		list = snap.PoolLimits(&pools[at])
		budgets = pools[at].Budgets
	}
	key = in + key
	if c.Budget.Limit > 0 {
		i := slices.IndexFunc(budgets, func(b tenants.Budget) bool {
			return b.Same(c.Budget)
		})
		key = "budgets[" + strconv.Itoa(i) + "]"
	}
	if i := slices.IndexFunc(windows, func(w tenants.Window) bool { return w.Name() == c.Axis }); i >= 0 {
		key = in + "limits[" + strconv.Itoa(i) + "]"
	}
	for _, l := range list {
		if l.Key == key && l.Of == "" {
			from = l.From
		}
	}
	return key, from
}

// decided is the outcome of a call of t with such a forecast.
func decided(o *governor.Forecast, t *tenants.Tenant, decider *int) *adminapi.Decision {
	switch {
	case o.Refused != nil:
		return refusedWith(admission.RefusalOf(o.Refused, t), decider)
	case o.Wait > 0:
		return &adminapi.Decision{Outcome: adminapi.OutcomeWait, Wait: o.Wait.Seconds(), Limit: decider}
	}
	return &adminapi.Decision{Outcome: adminapi.OutcomeAdmit, Upstream: o.Upstream}
}

// refusedWith is the answer that the caller would get.
func refusedWith(f *ask.Refusal, decider *int) *adminapi.Decision {
	again := (f.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond)
	return &adminapi.Decision{
		Outcome: adminapi.OutcomeRefuse, Status: f.Status, Code: f.Code, Type: cmp.Or(f.Kind, f.Code), Message: f.Message,
		RetryAfter: again.Seconds(), Limit: decider,
	}
}
