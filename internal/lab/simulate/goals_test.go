package simulate

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// goal is what a named scenario must reach; 0 is no goal. within is how much of it is
// looked at, 0 for all.
type goal struct {
	utilization, misallocation, longRun, share Value
	first, worth                               Value
	kept, late                                 Value
	trips, ofAsked, wait, waited               Value // of several nodes
	full, recovery                             Value // of several upstreams
	within                                     time.Duration
}

// goals are over all seeds of each scenario.
var goals = map[string]goal{
	"s1":        {utilization: 0.994, misallocation: 0.007, longRun: 0.013},
	"s2":        {utilization: 0.995, misallocation: 0.005, longRun: 0.01},
	"s2b":       {utilization: 0.994, misallocation: 0.005},
	"s3":        {utilization: 0.994, misallocation: 0.006, first: 1.6, worth: 6},
	"s3b":       {utilization: 0.994, misallocation: 0.006, first: 1.6, worth: 6},
	"s4":        {utilization: 0.994, misallocation: 0.008},
	"s5":        {utilization: 0.995, misallocation: 0.01},
	"hierarchy": {utilization: 0.994, misallocation: 0.007, first: 1.6},
	"two-axes":  {utilization: 0.995, share: 0.01},
	"apart":     {utilization: 0.995, misallocation: 0.006, longRun: 0.025},

	"s2-deny": {utilization: 0.994, misallocation: 0.01, kept: 0.95, late: 3.5},
	"s4-deny": {utilization: 0.994, misallocation: 0.015, kept: 0.95},
	"s5-deny": {utilization: 0.994, misallocation: 0.03, kept: 0.95},

	"monday":     {utilization: 0.994, misallocation: 0.023, kept: 0.965},
	"monday-3m":  {utilization: 0.995, misallocation: 0.011, kept: 0.98},
	"monday-60k": {utilization: 0.965, misallocation: 0.095, kept: 0.945},

	"durations":          {utilization: 0.99, misallocation: 0.03},
	"durations-weighted": {utilization: 0.99, misallocation: 0.03},
	"reserve":            {utilization: 0.99, misallocation: 0.01, longRun: 0.03},
	"soft-cap":           {utilization: 0.99, misallocation: 0.012, longRun: 0.04},
	"bands":              {misallocation: 0.006, longRun: 0.01},

	"a1": {utilization: 0.95, misallocation: 0.04, longRun: 0.03},
	"a2": {utilization: 0.95, misallocation: 0.03, longRun: 0.05},
	"a3": {utilization: 0.97, misallocation: 0.02, longRun: 0.03},
	"a4": {utilization: 0.95, misallocation: 0.04, longRun: 0.03},

	"u1": {misallocation: 0.009, full: 0.99},
	"u3": {utilization: 0.86, misallocation: 0.005, longRun: 0.01},
	"u2": {utilization: 0.99, misallocation: 0.006, longRun: 0.01, recovery: 3},

	"d1":      {utilization: 0.985, misallocation: 0.01, trips: 40, within: 5 * time.Minute},
	"d2":      {utilization: 0.985, misallocation: 0.01, trips: 40, within: 5 * time.Minute},
	"d3":      {ofAsked: 0.999, misallocation: 0.001, wait: 0.3, within: 5 * time.Minute},
	"d4":      {utilization: 0.98, misallocation: 0.025, trips: 40},
	"cut-off": {utilization: 0.98, misallocation: 0.01, longRun: 0.03},

	"calm-1":     {ofAsked: 0.999, waited: 0.001},
	"calm-2":     {ofAsked: 0.999, waited: 0.003, wait: 0.05},
	"calm-8":     {ofAsked: 0.999, waited: 0.003, wait: 0.05},
	"calm-flood": {utilization: 0.3},

	"reservation":         {utilization: 0.975, misallocation: 0.025},
	"reservation-drift3":  {utilization: 0.97},
	"reservation-drift10": {utilization: 0.95},
}

// Every named scenario reaches its goals, and the pool's own books are right all
// along.
func TestGoals(t *testing.T) {
	for _, name := range scenario.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "s2" && name != "calm-2" {
				testkit.Long(t, "simulates every seed of each scenario")
			}
			g, ok := goals[name]
			if !ok {
				t.Fatalf("%s has no goals", name)
			}
			o := Options{CheckEvery: 20_000}
			s := testkit.Must(scenario.Find(name))(t)
			if g.within > 0 {
				s.Duration = g.within
			}
			if len(s.Nodes) > 0 {
				o.Seeds = fewer() // none are those of the scenario
			}
			res := testkit.Must(Run(t.Context(), s, o))(t)
			f := res.Figures
			least := func(what string, got, want Value) {
				if want > 0 && !(got >= want) {
					t.Errorf("%s is %.4f, want at least %.4f", what, got, want)
				}
			}
			most := func(what string, got, want Value) {
				if want > 0 && !(got <= want) {
					t.Errorf("%s is %.4f, want at most %.4f", what, got, want)
				}
			}
			least("utilization", f.Utilization, g.utilization)
			most("misallocation", f.Misallocation, g.misallocation)
			most("the long-run deviation of the worst tenant", f.LongRunDeviation, g.longRun)
			most("the first admission of who returns", f.FirstAdmission, g.first)
			most("5 seconds' worth for who returns", f.FiveSecondsWorth, g.worth)
			least("the part of promises kept", f.PromiseKept, g.kept)
			most("the second wait", f.PromiseLateP95, g.late)
			most("round trips to the store", f.StoreRoundTrips, g.trips)
			least("the part served of what was asked for", f.Admitted/f.Requests, g.ofAsked)
			most("the 99th percentile of waits", f.WaitP99, g.wait)
			most("the part of requests that waited for more than 0.1 s", f.WaitedOver100ms, g.waited)
			least("the used part of the first order while others are used", f.SpillFull, g.full)
			most("the time from the loss or return of an upstream to full use", f.Recovery, g.recovery)
			if g.share > 0 {
				least("the least of dominant shares over the largest", f.DominantRatio, 1-g.share)
			}
			for _, v := range append(f.Fullest[:], f.UpstreamsMax) {
				if v.Known() && v > 1 {
					t.Errorf("a limit is exceeded: %.4f of it was used", v)
				}
			}
		})
	}
}

// TestMonday_PromisesInSmallPools: four minutes of the scenario, with its cold start. TestGoals has all of it.
func TestMonday_PromisesInSmallPools(t *testing.T) {
	for name, worst := range map[string]Value{"monday": 0.03, "monday-3m": 0.015, "monday-60k": 0.13} {
		s := testkit.Must(scenario.Find(name))(t)
		s.Duration = 4 * time.Minute
		res := testkit.Must(Run(t.Context(), s, Options{Seeds: []uint64{1}}))(t)
		f := res.Figures
		if f.PromiseKept < 0.94 || f.Misallocation > worst {
			t.Errorf("%s: %.3f of promises are kept and %.3f is misallocated", name, f.PromiseKept, f.Misallocation)
		}
		if f.MisallocationWhole <= 0 || f.MisallocationWhole > 0.6*f.Misallocation {
			t.Errorf("%s: whole calls misallocate %.4f, the pool %.4f", name, f.MisallocationWhole, f.Misallocation)
		}
		for _, x := range res.Tenants {
			if x.Name == "search" && x.Received < 0.9*x.Entitled {
				t.Errorf("%s: search got %.3f of the pool, and is entitled to %.3f", name, x.Received, x.Entitled)
			}
		}
	}
}

// fewer are some seeds, of which the race detector, which makes everything ten times as slow, gets one.
func fewer(seeds ...uint64) []uint64 {
	if testkit.Race {
		return []uint64{1}
	}
	return seeds
}
