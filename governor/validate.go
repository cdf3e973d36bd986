package governor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// Validate finds all mistakes of a configuration at once.

// maxTokenWeight keeps weighed counts within an int64.
const maxTokenWeight = 1000

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var f faults
	c.checkSharing(&f)
	pools := map[string]bool{}
	tenants := map[string]bool{}
	for i := range c.Pools {
		p := &c.Pools[i]
		if pools[p.Name] || p.Name == "" {
			f.add("pool name %q is empty or taken", p.Name)
		}
		pools[p.Name] = true
		p.check(&f, c.Shared)
	}
	for i := range c.Tenants {
		t := &c.Tenants[i]
		if tenants[t.Name] || t.Name == "" {
			f.add("tenant name %q is empty or taken", t.Name)
		}
		tenants[t.Name] = true
		t.check(&f, pools)
	}
	for _, t := range c.Tenants {
		if up := teamOf(t.Name); strings.Contains(t.Name, "/") && !tenants[up] {
			f.add("team %s: there is no tenant %q that it could be a team of", t.Name, up)
		}
	}
	return errors.Join(f...)
}

// faults collects the mistakes of a configuration.
type faults []error

func (f *faults) add(format string, args ...any) {
	*f = append(*f, fmt.Errorf("governor: "+format, args...))
}

// checkSharing finds ways to share limits that do not go together with each other, or with
// recording: the grants would be missing from the record.
func (c *Config) checkSharing(f *faults) {
	for _, x := range []struct {
		what string
		set  bool
	}{{"Shared", c.Shared}, {"SharedLimits", c.SharedLimits}, {"SharedSlots", c.SharedSlots}} {
		if c.Recorded && x.set {
			f.add("%s and Recorded do not go together: what others leave of a limit is not told to the Observer", x.what)
		}
	}
	if c.SharedSlots && !c.Shared {
		f.add("SharedSlots is of pools whose limits are shared: set Shared, too")
	}
}

// check finds the mistakes of a pool, whose limits are shared with other processes or not.
func (c *Pool) check(f *faults, shared bool) {
	for _, weight := range []float64{c.Weights.Input, c.Weights.CachedInput, c.Weights.Output, c.Weights.Reasoning, c.Weights.Audio} {
		if !(weight >= 0 && weight <= maxTokenWeight) {
			f.add("pool %s: token weight %v is not in 0…%d", c.Name, weight, maxTokenWeight)
		}
	}
	if c.HeadroomPPM < 0 || c.HeadroomPPM >= 1_000_000 {
		f.add("pool %s: headroom of %d ppm is not in 0…999999", c.Name, c.HeadroomPPM)
	} else if err := c.escrow(c.Burst).Validate(); err != nil {
		f.add("pool %s: %w", c.Name, err)
	}
	if c.Adaptive > adaptive.AIMD {
		f.add("pool %s: there is no adaptive law %d", c.Name, c.Adaptive)
	} else if c.Adaptive != adaptive.Fixed && (c.MinConcurrency < 1 || c.MinConcurrency > c.Concurrency) {
		f.add("pool %s: least concurrency %d is not in 1…%d", c.Name, c.MinConcurrency, c.Concurrency)
	}
	if c.Adaptive != adaptive.Fixed && c.SoftCapPPM > 0 {
		f.add("pool %s: a tenant at its soft cap would keep an adaptive limit from rising: have one of them", c.Name)
	}
	if c.Adaptive != adaptive.Fixed && c.HoldBackPPM > 0 {
		f.add("pool %s: calls that are held back would keep an adaptive limit from rising: have one of them", c.Name)
	}
	if c.PerTenant && c.Concurrency == 0 {
		f.add("pool %s: PerTenant is of a limit on concurrent calls: set Concurrency, too", c.Name)
	}
	if c.TenantLimits > LimitsStrict {
		f.add("pool %s: there is no way %d to count against tenants' limits", c.Name, c.TenantLimits)
	}
	if c.LocalPPM < 0 || c.LocalPPM >= 1_000_000 {
		f.add("pool %s: a withheld part of %d ppm is not in 0…999999", c.Name, c.LocalPPM)
	}
	if limit := max(c.TPM, c.RPM, c.ITPM, c.OTPM); shared && limit > MaxShared {
		f.add("pool %s: limit %d is more than can be shared, %d", c.Name, limit, MaxShared)
	}
	c.checkUpstreams(f)
	checkBudgets(f, "pool", c.Name, c.Budgets)
}

// checkUpstreams finds the mistakes in a pool's upstreams.
func (c *Pool) checkUpstreams(f *faults) {
	if len(c.Upstreams) > placement.Most {
		f.add("pool %s: %d upstreams are more than %d", c.Name, len(c.Upstreams), placement.Most)
	}
	names := map[string]bool{}
	for _, u := range c.Upstreams {
		if u.Name == "" || names[u.Name] {
			f.add("pool %s: upstream name %q is empty or taken", c.Name, u.Name)
		}
		names[u.Name] = true
		if min(u.Weight, u.TPM, u.RPM, u.ITPM, u.OTPM, u.Concurrency) < 0 || max(u.TPM, u.RPM, u.ITPM, u.OTPM, u.Concurrency) > escrow.MaxLimit {
			f.add("pool %s: a limit of upstream %s is not in 0…%d", c.Name, u.Name, escrow.MaxLimit)
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
	t.limits().check(f, t.Name)
	Limits{TPM: t.Floor}.check(f, t.Name)
	for name, l := range t.InPool {
		if l.check(f, t.Name+" in pool "+name); !pools[name] {
			f.add("tenant %s: limits in pool %q, which is not there", t.Name, name)
		}
	}
	if strings.Contains(t.Name, "/") && t.Group != "" {
		f.add("team %s: only who is no team can be in a group, not in %s", t.Name, t.Group)
	}
	checkBudgets(f, "tenant", t.Name, t.Budgets)
	for _, name := range t.Pools {
		if !pools[name] {
			f.add("tenant %s: there is no pool %q", t.Name, name)
		}
	}
}

// check finds limits that are out of range.
func (l Limits) check(f *faults, owner string) {
	for _, limit := range [...]int64{l.RPM, l.TPM, l.ITPM, l.OTPM, l.Concurrency} {
		if limit < 0 || limit > escrow.MaxLimit {
			f.add("tenant %s: limit %d is not in 0…%d", owner, limit, escrow.MaxLimit)
		}
	}
	if len(l.Windows) > limits.MaxWindows {
		f.add("tenant %s: %d further limits are more than %d", owner, len(l.Windows), limits.MaxWindows)
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
		case b.Unit < 0 || int(b.Unit) >= units || b.Per < budget.Hour || b.Per > budget.Month:
			f.add("%s %s: budget %d has no such unit or period", kind, name, i)
			continue
		case b.Limit < 1 || b.Limit > MaxBudget:
			f.add("%s %s: budget of %s: %d is not in 1…%d", kind, name, b.Name(), b.Limit, MaxBudget)
		}
		if slices.ContainsFunc(list[:i], func(o Budget) bool { return o.Unit == b.Unit && o.Per == b.Per }) {
			f.add("%s %s: budget of %s is there twice", kind, name, b.Name())
		}
	}
}
