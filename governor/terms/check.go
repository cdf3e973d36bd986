package terms

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// maxTokenWeight keeps weighed counts within an int64.
const maxTokenWeight = 1000

// MaxShared is the largest limit of a pool that may be shared.
const MaxShared = int64(1e11)

// Check finds all mistakes of pools, whose limits are shared with other processes or not, and of their tenants at once.
func Check(pools []Pool, tenants []Tenant, shared bool) []error {
	var f faults
	known := map[string]bool{}
	names := make(map[string]bool, len(tenants))
	for i := range pools {
		p := &pools[i]
		if known[p.Name] || p.Name == "" {
			f.add("pool name %q is empty or taken", p.Name)
		}
		known[p.Name] = true
		p.check(&f, shared)
	}
	for i := range tenants {
		t := &tenants[i]
		if names[t.Name] || t.Name == "" {
			f.add("tenant name %q is empty or taken", t.Name)
		}
		names[t.Name] = true
		t.check(&f, known)
	}
	for _, t := range tenants {
		if up := TeamOf(t.Name); strings.Contains(t.Name, "/") && !names[up] {
			f.add("team %s: there is no tenant %q that it could be a team of", t.Name, up)
		}
	}
	return f
}

// faults collects the mistakes of a configuration.
type faults []error

func (f *faults) add(format string, args ...any) {
	*f = append(*f, fmt.Errorf("governor: "+format, args...))
}

// check finds the mistakes of a pool, whose limits are shared with other processes or not.
func (p *Pool) check(f *faults, shared bool) {
	for _, weight := range []float64{p.Weights.Input, p.Weights.CachedInput, p.Weights.Output, p.Weights.Reasoning, p.Weights.Audio, p.Weights.HeldOutput} {
		if !(weight >= 0 && weight <= maxTokenWeight) {
			f.add("pool %s: token weight %v is not in 0…%d", p.Name, weight, maxTokenWeight)
		}
	}
	if p.HeadroomPPM < 0 || p.HeadroomPPM >= 1_000_000 {
		f.add("pool %s: headroom of %d ppm is not in 0…999999", p.Name, p.HeadroomPPM)
	} else if err := p.Escrow().Validate(); err != nil {
		f.add("pool %s: %w", p.Name, err)
	}
	if p.Adaptive > adaptive.AIMD {
		f.add("pool %s: there is no adaptive law %d", p.Name, p.Adaptive)
	} else if p.Adaptive != adaptive.Fixed && (p.MinConcurrency < 1 || p.MinConcurrency > p.Concurrency) {
		f.add("pool %s: least concurrency %d is not in 1…%d", p.Name, p.MinConcurrency, p.Concurrency)
	}
	if p.Adaptive != adaptive.Fixed && p.SoftCapPPM > 0 {
		f.add("pool %s: a tenant at its soft cap would keep an adaptive limit from rising: have one of them", p.Name)
	}
	if p.Adaptive != adaptive.Fixed && p.HoldBackPPM > 0 {
		f.add("pool %s: calls that are held back would keep an adaptive limit from rising: have one of them", p.Name)
	}
	if p.PerTenant && p.Concurrency == 0 {
		f.add("pool %s: PerTenant is of a limit on concurrent calls: set Concurrency, too", p.Name)
	}
	if p.TenantLimits > LimitsStrict {
		f.add("pool %s: there is no way %d to count against tenants' limits", p.Name, p.TenantLimits)
	}
	if p.LocalPPM < 0 || p.LocalPPM >= 1_000_000 {
		f.add("pool %s: a withheld part of %d ppm is not in 0…999999", p.Name, p.LocalPPM)
	}
	minute := Minute(p)
	if limit := slices.Max(minute[:]); shared && limit > MaxShared {
		f.add("pool %s: limit %d is more than can be shared, %d", p.Name, limit, MaxShared)
	}
	p.checkUpstreams(f)
	checkBudgets(f, "pool", p.Name, p.Budgets)
}

// checkUpstreams finds the mistakes in a pool's upstreams.
func (p *Pool) checkUpstreams(f *faults) {
	if len(p.Upstreams) > placement.Most {
		f.add("pool %s: %d upstreams are more than %d", p.Name, len(p.Upstreams), placement.Most)
	}
	names := map[string]bool{}
	for _, u := range p.Upstreams {
		if u.Name == "" || names[u.Name] {
			f.add("pool %s: upstream name %q is empty or taken", p.Name, u.Name)
		}
		names[u.Name] = true
		own := u.Limits()
		if min(u.Weight, u.Concurrency, slices.Min(own.Minute[:])) < 0 || max(u.Concurrency, slices.Max(own.Minute[:])) > escrow.MaxLimit {
			f.add("pool %s: a limit of upstream %s is not in 0…%d", p.Name, u.Name, escrow.MaxLimit)
		}
	}
}

// check finds the mistakes of a tenant of a configuration with these pools.
func (t *Tenant) check(f *faults, pools map[string]bool) {
	if !cmp.Or(t.Weight, 1).Valid() {
		f.add("tenant %s: weight %v is not in %v…%.0f", t.Name, t.Weight, escrow.MinWeight, escrow.MaxWeight)
	}
	if t.Below < 0 || t.Below > escrow.LowestBand {
		f.add("tenant %s: %d bands below the highest is not in 0…%d", t.Name, t.Below, escrow.LowestBand)
	}
	if t.Group != "" && !cmp.Or(t.GroupWeight, 1).Valid() {
		f.add("tenant %s: weight %v of group %s is not in %v…%.0f", t.Name, t.GroupWeight, t.Group, escrow.MinWeight, escrow.MaxWeight)
	}
	if t.Credit < 0 || t.Credit > escrow.Window {
		f.add("tenant %s: credit %v is not in 0…%v", t.Name, t.Credit, escrow.Window)
	}
	t.checkLimits(f)
	(&Limits{TPM: t.Floor}).check(f, t.Name)
	for name, l := range t.InPool {
		if l.check(f, t.Name+" in pool "+name); !pools[name] {
			f.add("tenant %s: limits in pool %q, which is not there", t.Name, name)
		}
	}
	if strings.Contains(t.Name, "/") && t.Group != "" {
		f.add("team %s: only who is no team can be in a group, not in %s", t.Name, t.Group)
	}
	if strings.Contains(t.Name, memberMark) {
		f.add("tenant %s: %q stands before the name of a member", t.Name, memberMark)
	}
	if t.Members != nil {
		each := t.Members.Each
		each.Name = MemberName(t.Name, "")
		each.checkLimits(f)
		for name, o := range t.Members.Of {
			for at := &o; at != nil; at = at.Then {
				own := at.Tenant
				own.Name = MemberName(t.Name, name)
				own.checkLimits(f)
			}
		}
	}
	for _, name := range t.Pools {
		if !pools[name] {
			f.add("tenant %s: there is no pool %q", t.Name, name)
		}
	}
}

// checkLimits finds the mistakes in limits and budgets over all pools.
func (t *Tenant) checkLimits(f *faults) {
	own := t.Limits()
	own.check(f, t.Name)
	checkBudgets(f, "tenant", t.Name, t.Budgets)
}

// check finds limits that are out of range.
func (l *Limits) check(f *faults, owner string) {
	for _, k := range Axes {
		if limit := *l.Amount(k); limit < 0 || limit > escrow.MaxLimit {
			f.add("tenant %s: limit %d is not in 0…%d", owner, limit, escrow.MaxLimit)
		}
	}
	if len(l.Windows) > MaxLimits {
		f.add("tenant %s: %d further limits are more than %d", owner, len(l.Windows), MaxLimits)
	}
	for i, w := range l.Windows {
		if w.Of < 0 || int(w.Of) >= limits.Kinds {
			f.add("tenant %s: further limit %d is on no kind of cost", owner, i)
		} else if err := w.Validate(); err != nil {
			f.add("tenant %s: %s: %w", owner, w.Of, err)
		} else if slices.ContainsFunc(l.Windows[:i], w.Same) {
			f.add("tenant %s: the limit of %s is there twice", owner, w.Name())
		}
	}
}

// checkBudgets finds the mistakes in the budgets of a pool or tenant.
func checkBudgets(f *faults, kind, name string, list []Budget) {
	for i, b := range list {
		switch {
		case b.Unit < 0 || int(b.Unit) >= Units || b.Per < budget.Hour || b.Per > budget.Life:
			f.add("%s %s: budget %d has no such unit or period", kind, name, i)
			continue
		case b.Per == budget.Life && kind == "pool":
			f.add("%s %s: budget of %s: only tenants and members have one for life", kind, name, b.Name())
		case b.Limit < 1 || b.Limit > MaxBudget:
			f.add("%s %s: budget of %s: %d is not in 1…%d", kind, name, b.Name(), b.Limit, MaxBudget)
		}
		if slices.ContainsFunc(list[:i], b.Same) {
			f.add("%s %s: budget of %s is there twice", kind, name, b.Name())
		}
	}
}
