package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/distribution"
)

func drain(p *Plan) []Event {
	var all []Event
	for s := NewSchedule(p); ; {
		ev, ok := s.Next()
		if !ok {
			return all
		}
		all = append(all, ev)
	}
}

func plan(d time.Duration, list ...Tenant) *Plan {
	return &Plan{Tenants: list, For: d, Seed: 1, Timeout: time.Minute, MaxInFlight: 1000}
}

func anyTenant(t *rapid.T, name string) Tenant {
	x := DefaultTenant()
	x.Name = name
	x.Rate = rapid.Float64Range(0.5, 80).Draw(t, "rate")
	x.Arrivals = rapid.SampledFrom([]Arrivals{Poisson, Constant}).Draw(t, "arrivals")
	x.Stream = rapid.Float64Range(0, 1).Draw(t, "stream")
	x.Disconnect = rapid.Float64Range(0, 1).Draw(t, "disconnect")
	if rapid.Bool().Draw(t, "bursts") {
		x.Burst = Burst{rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(t, "every"), rapid.Int64Range(1, 30).Draw(t, "size")}
	}
	if rapid.Bool().Draw(t, "storms") {
		x.Storm = Storm{4 * time.Second, 1}
	}
	return x
}

// The same plan and seed ask for the same, in the order of time, within the run.
func TestSchedule_IsAFunctionOfPlanAndSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plan(20*time.Second, anyTenant(t, "a"), anyTenant(t, "b"))
		p.Seed = rapid.Uint64().Draw(t, "seed")
		all := drain(p)
		if d := cmp.Diff(all, drain(p)); d != "" {
			t.Fatal(d)
		}
		if !slices.IsSortedFunc(all, func(a, b Event) int { return int(a.At - b.At) }) {
			t.Fatal("not in order")
		}
		if n := len(all); n > 0 && (all[0].At < 0 || all[n-1].At >= p.end()) {
			t.Fatalf("from %v to %v", all[0].At, all[n-1].At)
		}
	})
}

// Nobody's calls depend on what others ask, nor lengths on how often is asked.
func TestSchedule_TenantsAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyTenant(t, "a")
		a.Burst = Burst{}
		a.Storm = Storm{}
		alone := drain(plan(20*time.Second, a))
		var among []Event
		for _, ev := range drain(plan(20*time.Second, a, anyTenant(t, "b"))) {
			if ev.Tenant == 0 {
				among = append(among, ev)
			}
		}
		if d := cmp.Diff(alone, among); d != "" {
			t.Fatalf("another tenant changes it: %s", d)
		}
		faster := a
		faster.Rate *= 2
		more := drain(plan(20*time.Second, faster))
		for i := range min(len(alone), len(more)) {
			if alone[i].Prompt != more[i].Prompt || alone[i].Output != more[i].Output || alone[i].Stream != more[i].Stream {
				t.Fatalf("call %d differs at another rate", i)
			}
		}
	})
}

// A clock does not drift, and hits every beat.
func TestSchedule_Constant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := DefaultTenant()
		x.Arrivals, x.Rate = Constant, rapid.Float64Range(0.3, 900).Draw(t, "rate")
		all := drain(plan(time.Minute, x))
		if n := float64(len(all)); math.Abs(n-x.Rate*60) > 1 {
			t.Fatalf("%v calls in a minute at %v a second", n, x.Rate)
		}
		for k, ev := range all {
			if want := all[0].At.Seconds() + float64(k)/x.Rate; math.Abs(ev.At.Seconds()-want) > 1e-6 {
				t.Fatalf("call %d is due at %v, want %v s", k, ev.At, want)
			}
		}
	})
}

// Poisson: the mean rate, and gaps that spread as much as they are long.
func TestSchedule_Poisson(t *testing.T) {
	x := DefaultTenant()
	x.Rate = 200
	for seed := range uint64(5) {
		p := plan(5*time.Minute, x)
		p.Seed = seed
		all := drain(p)
		n := float64(len(all))
		if want := 200.0 * 300; math.Abs(n-want) > 5*math.Sqrt(want) {
			t.Errorf("seed %d: %v calls, want about %v", seed, n, want)
		}
		var sum, squares float64
		for i := range all[1:] {
			gap := (all[i+1].At - all[i].At).Seconds()
			sum = sum + gap
			squares = squares + gap*gap
		}
		mean := sum / (n - 1)
		if spread := math.Sqrt(squares/(n-1)-mean*mean) / mean; math.Abs(spread-1) > 0.03 {
			t.Errorf("seed %d: the gaps' spread is %.3f of their mean, want 1", seed, spread)
		}
	}
}

func TestSchedule_Bursts(t *testing.T) {
	x := DefaultTenant()
	x.Rate = 0
	x.Burst = Burst{3 * time.Second, 7}
	x.Storm = Storm{Every: 4 * time.Second, Share: 1}
	at := map[time.Duration]int{}
	storms := 0
	for _, ev := range drain(plan(10*time.Second, x)) {
		if ev.Storm {
			storms++
		} else {
			at[ev.At]++
		}
	}
	if d := cmp.Diff(map[time.Duration]int{3 * time.Second: 7, 6 * time.Second: 7, 9 * time.Second: 7}, at); d != "" {
		t.Error(d)
	}
	if storms != 2 {
		t.Errorf("%d storms, want 2", storms)
	}
}

// Shares and lengths come out as they were asked for.
func TestSchedule_Draws(t *testing.T) {
	x := DefaultTenant()
	x.Rate = 100
	x.Stream = 0.5
	x.Disconnect = 0.2
	x.Prompt, x.Output = distribution.Distribution{Mean: 300, Sigma: 0.5, Min: 1, Max: 1e6}, distribution.Constant(40)
	var n, streams, broken, prompt float64
	for _, ev := range drain(plan(5*time.Minute, x)) {
		n++
		prompt += float64(ev.Prompt)
		if ev.Output != 40 {
			t.Fatalf("output %d", ev.Output)
		}
		if ev.Stream {
			streams++
		}
		if ev.BreakAfter > 0 {
			broken++
		}
		if ev.BreakAfter > 0 && !ev.Stream || ev.BreakAfter > 40 {
			t.Fatalf("%+v", ev)
		}
	}
	for what, got := range map[string][2]float64{
		"streams": {streams / n, 0.5}, "broken off": {broken / streams, 0.2}, "prompt": {prompt / n / 300, 1},
	} {
		if math.Abs(got[0]-got[1]) > 0.02 {
			t.Errorf("%s: %.3f, want %.3f", what, got[0], got[1])
		}
	}
}

// A rate at which nothing is due within any run is no rate at which time runs backwards.
func TestSchedule_TinyRate(t *testing.T) {
	x := DefaultTenant()
	x.Rate = 1e-300
	if all := drain(plan(Longest, x)); len(all) != 0 {
		t.Errorf("%d calls, the first at %v", len(all), all[0].At)
	}
}
