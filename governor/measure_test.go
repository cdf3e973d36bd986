package governor

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// ask keeps workers of each tenant asking for calls of 1000 tokens for so long.
func ask(t *testing.T, g *Governor, d time.Duration, workers map[string]int) {
	t.Helper()
	ctx, stop := testkit.Leaving(t.Context(), d)
	defer stop()
	var wg sync.WaitGroup
	for name, n := range workers {
		for range n {
			wg.Go(func() {
				for ctx.Err() == nil {
					if l, rej := g.Acquire(ctx, demand(name, 1000)); rej == nil {
						l.Settle(Usage{Output: 1000})
					}
				}
			})
		}
	}
	wg.Wait()
}

// sharesOf are those of the only pool, by tenant.
func sharesOf(g *Governor) (PoolState, map[string]TenantShare) {
	p := g.State().Pools[0]
	by := map[string]TenantShare{}
	for _, s := range p.Shares {
		by[s.Tenant] = s
	}
	return p, by
}

// TestShares: what is measured of groups, teams and floors while they ask for all, when
// some leave, when others come into the policy, and when nobody asks any more.
func TestShares(t *testing.T) {
	base := []Tenant{
		{Name: "pro", Weight: 2, MaxWait: time.Hour},
		{Name: "f1", Weight: 1, Group: "free", GroupWeight: 1, MaxWait: time.Hour},
		{Name: "f2", Weight: 1, Group: "free", GroupWeight: 1, MaxWait: time.Hour},
		{Name: "org", Weight: 2, MaxWait: time.Hour},
		{Name: "org/a", Weight: 3, MaxWait: time.Hour},
		{Name: "small", Weight: 0.001, Floor: 60_000, MaxWait: time.Hour},
	}
	cfg := Config{Pools: []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}}, Tenants: base}
	synctest.Test(t, func(t *testing.T) {
		g := must(t, cfg)
		check := func(what string, want map[string]float64) {
			t.Helper()
			p, by := sharesOf(g)
			if p.Jain < .995 || p.Deviation > .06 {
				t.Errorf("%s: Jain's index is %.4f and the deviation %.4f: %+v", what, p.Jain, p.Deviation, p.Shares)
			}
			if limit := int64(600_000) * 6 / 100; p.Unused > limit {
				t.Errorf("%s: %d tokens are unused", what, p.Unused)
			}
			for name, part := range want {
				if got := by[name]; math.Abs(got.Entitled-part) > .02 || math.Abs(got.Received-part) > .02 {
					t.Errorf("%s: %s is entitled to %.3f, and received %.3f, want %.3f", what, name, got.Entitled, got.Received, part)
				}
			}
		}
		all := map[string]int{"pro": 8, "f1": 8, "f2": 8, "org": 8, "org/a": 8, "small": 8}
		ask(t, g, 3*time.Minute, all)
		check("all ask", map[string]float64{"pro": .36, "f1": .09, "f2": .09, "org": .09, "org/a": .27, "small": .1})
		_, by := sharesOf(g)
		if got := by["f1"].Guaranteed; math.Abs(got-.1) > .001 {
			t.Errorf("by weight alone f1 has %.3f, want a tenth", got)
		}

		delete(all, "pro")
		ask(t, g, 3*time.Minute, all)
		check("pro does not", map[string]float64{"pro": 0, "f1": .15, "f2": .15, "org": .15, "org/a": .45, "small": .1})
		_, by = sharesOf(g)
		// Of its 240,000 a minute pro lent all that the others had beyond theirs.
		if lent := by["pro"].Lent; lent < 2*200_000 || lent > 3*240_000 || by["pro"].Borrowed > lent/50 {
			t.Errorf("pro lent %.0f and borrowed %.0f in three minutes", lent, by["pro"].Borrowed)
		}

		cfg.Tenants = append(base[:len(base):len(base)], Tenant{Name: "new", Weight: 2, MaxWait: time.Hour})
		testkit.OK(t, g.Apply(cfg))
		was := by["pro"].Lent
		all["new"] = 8
		ask(t, g, 3*time.Minute, all)
		check("there is another", map[string]float64{"pro": 0, "new": .36, "f1": .09, "org/a": .27, "small": .1})
		_, by = sharesOf(g)
		if by["pro"].Lent < was {
			t.Errorf("what pro lent fell from %.0f to %.0f", was, by["pro"].Lent)
		}

		time.Sleep(2 * time.Minute)
		check("nobody asks", map[string]float64{"new": 0, "f1": 0, "small": 0})
		if p := g.pools["p"]; p.measure.running {
			t.Error("an idle pool is still measured")
		}
		ask(t, g, 20*time.Second, map[string]int{"f1": 8})
		_, by = sharesOf(g)
		if by["f1"].Received < .3 || math.Abs(by["f1"].Received-by["f1"].Entitled) > .02 {
			t.Errorf("who comes to an idle pool received %.3f, and is entitled to %.3f", by["f1"].Received, by["f1"].Entitled)
		}
	})
}

// TestShares_Calls: what waits and runs is told by tenant, and for how long it has.
func TestShares_Calls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}, {Name: "b", Weight: 1, MaxWait: time.Hour}},
		})
		l := admitted(t, g, demand("a", 1000))
		ctx, stop := context.WithCancel(t.Context())
		for range 2 {
			go g.Acquire(ctx, demand("b", 60_000))
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		p, by := sharesOf(g)
		if a, b := by["a"], by["b"]; a.Running != 1 || a.Queued != 0 || b.Running != 0 || b.Queued != 2 || b.OldestWait != 10*time.Second {
			t.Errorf("a %+v\nb %+v", a, b)
		}
		if d := by["b"].Demand; d < 2 || d > 2.01 {
			t.Errorf("b asks for %.3f of the minute, want 2", d)
		}
		for _, info := range p.Leases {
			if want := 5 * time.Second; info.State == "waiting" && info.Age != want && info.Age != 2*want {
				t.Errorf("a call that waits is %v old", info.Age)
			}
		}
		l.Settle(Usage{Output: 3000})
		_, by = sharesOf(g)
		if by["a"].Debt < 2000 || by["b"].Debt != 0 {
			t.Errorf("debts are %d and %d tokens, want some 3000 and none", by["a"].Debt, by["b"].Debt)
		}
		stop()
		synctest.Wait()
	})
}

// TestShares_ColdStart: at first calls are charged twenty times what they take, for nobody knows
// that. When they have given that back, what tenants received is what their calls of the last
// minute took, and they were entitled to the same in all: nothing that was charged in the first
// seconds is missing from the next minute.
func TestShares_ColdStart(t *testing.T) {
	const tpm, declared, took = 600_000, 4096, 200
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: tpm, Burst: 10 * time.Second, MaxQueue: 1000}},
			Tenants: []Tenant{{Name: "a", Weight: 2, MaxWait: time.Hour}, {Name: "b", Weight: 1, MaxWait: time.Hour}},
		})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		began := map[string][]time.Time{}
		for _, name := range []string{"a", "b"} {
			for range 100 {
				wg.Go(func() {
					for ctx.Err() == nil {
						l, rej := g.Acquire(ctx, demand(name, declared))
						if rej != nil {
							return
						}
						mu.Lock()
						began[name] = append(began[name], time.Now())
						mu.Unlock()
						time.Sleep(4 * time.Second)
						l.Settle(Usage{Output: took})
					}
				})
			}
		}
		time.Sleep(70*time.Second + time.Second/2)
		for second := 70; second < 180; second++ {
			_, by := sharesOf(g)
			received := 0.0
			entitled := 0.0
			for name, s := range by {
				received = received + s.Received
				entitled = entitled + s.Entitled
				calls := 0
				mu.Lock()
				for _, at := range began[name] {
					if time.Since(at) < time.Minute {
						calls++
					}
				}
				mu.Unlock()
				if truth := float64(calls) * took / tpm; math.Abs(s.Received-truth) > .03 {
					t.Errorf("after %d s: %s received %.3f, and its calls took %.3f", second, name, s.Received, truth)
				}
			}
			if math.Abs(entitled-received) > .02 {
				t.Errorf("after %d s: all received %.3f, and were entitled to %.3f", second, received, entitled)
			}
			time.Sleep(time.Second)
		}
		stop()
		wg.Wait()
	})
}

// BenchmarkColdCall is a short call of one of 1000 tenants that have a limit on every axis. Between calls other memory is written to,
// as a gateway would, so that little of the tenant is in the processor's cache. It reports the time of the verbs alone.
func BenchmarkColdCall(b *testing.B) {
	cfg := thousandConfig()
	cfg.Observer = idleObserver{}
	names := make([]string, len(cfg.Tenants))
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		t.Tier = "bench"
		t.ITPM = 1e9
		t.OTPM = 1e9
		names[i] = t.Name
	}
	g := must(b, cfg)
	ctx := b.Context()
	other := make([]byte, 1<<20)
	var acquire, standing, settle time.Duration
	call := func(i int) {
		for k := 0; k < len(other); k += 64 {
			other[k]++
		}
		began := time.Now()
		l, rej := Refused(g.Acquire(ctx, Request{Tenant: names[i%len(names)], Pool: "p", Model: "gpt-4o-mini", Input: 60, Output: 512}))
		admitted := time.Now()
		if rej != nil {
			b.Fatal(rej)
		}
		g.Standing(names[i%len(names)], "p")
		stood := time.Now()
		l.Settle(Usage{Input: 60, Output: 20})
		acquire += admitted.Sub(began)
		standing += stood.Sub(admitted)
		settle += time.Since(stood)
	}
	for i := range 30 * len(names) {
		call(i)
	}
	acquire = 0
	standing = 0
	settle = 0
	n := 0
	for b.Loop() {
		call(n)
		n++
	}
	for verb, took := range map[string]time.Duration{"acquire": acquire, "standing": standing, "settle": settle, "all": acquire + standing + settle} {
		b.ReportMetric(float64(took.Nanoseconds())/float64(n), verb+"-ns/op")
	}
}

// flood keeps workers of each tenant asking for calls of 1000 tokens, and says what
// part of the limit each received in five minutes, after two.
func flood(t *testing.T, cfg Config, workers map[string]int) map[string]float64 {
	t.Helper()
	g := must(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	got := map[string]*atomic.Int64{}
	for name, n := range workers {
		sum := &atomic.Int64{}
		got[name] = sum
		for range n {
			wg.Go(func() {
				for ctx.Err() == nil {
					l, rej := g.Acquire(ctx, demand(name, 1000))
					if rej != nil {
						continue
					}
					l.Settle(Usage{Output: 1000})
					sum.Add(1000)
				}
			})
		}
	}
	time.Sleep(2 * time.Minute)
	for _, sum := range got {
		sum.Store(0)
	}
	time.Sleep(5 * time.Minute)
	shares := map[string]float64{}
	for name, sum := range got {
		shares[name] = float64(sum.Load()) / 5 / float64(cfg.Pools[0].TPM)
	}
	stop()
	wg.Wait()
	return shares
}

func near(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, share := range want {
		t.Logf("%s received %.4f of the limit, ideal %.4f", name, got[name], share)
		if math.Abs(got[name]-share) > 0.02*share+0.002 {
			t.Errorf("%s received %.4f of the limit, want %.4f", name, got[name], share)
		}
	}
}

// A grouped tier has one weight for all its tenants, however many they are; what
// they leave goes to the others.
func TestGroupsShareOneWeight(t *testing.T) {
	cfg := Config{Pools: []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}}}
	cfg.Tenants = append(cfg.Tenants, Tenant{Name: "pro", Weight: 2, MaxWait: time.Hour})
	for _, name := range []string{"f1", "f2", "f3"} {
		cfg.Tenants = append(cfg.Tenants, Tenant{Name: name, Weight: 1, Group: "free", GroupWeight: 1, MaxWait: time.Hour})
	}
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"pro": 8, "f1": 8, "f2": 8, "f3": 8}),
			map[string]float64{"pro": 2. / 3, "f1": 1. / 9, "f2": 1. / 9, "f3": 1. / 9})
	})
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"pro": 8, "f1": 8}), map[string]float64{"pro": 2. / 3, "f1": 1. / 3})
	})
}

// A floor goes before weights, and does not add to a share that is larger.
func TestFloorsGoBeforeWeights(t *testing.T) {
	cfg := Config{
		Pools: []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}},
		Tenants: []Tenant{
			{Name: "small", Weight: 0.1, Floor: 180_000, MaxWait: time.Hour},
			{Name: "large", Weight: 2, Floor: 60_000, MaxWait: time.Hour},
			{Name: "other", Weight: 1.9, MaxWait: time.Hour},
		},
	}
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"small": 8, "large": 8, "other": 8}),
			map[string]float64{"small": 0.3, "large": 0.7 * 2000 / 3900, "other": 0.7 * 1900 / 3900})
	})
}

// TestShares_ApplyKeepsWhatIsMeasured: a pool is measured anew only by a configuration with other shares, because there may be very many.
func TestShares_ApplyKeepsWhatIsMeasured(t *testing.T) {
	cfg := Config{Pools: []Pool{{Name: "p", TPM: 600_000}}, Tenants: []Tenant{{Name: "a", Floor: 6000}, {Name: "b"}}}
	g := must(t, cfg)
	p := g.pools["p"]
	for _, change := range []struct {
		what string
		make func()
		anew bool
	}{
		{"nothing", func() {}, false},
		{"a tenant's own limit", func() { cfg.Tenants[1].RPM = 5 }, false},
		{"a weight", func() { cfg.Tenants[1].Weight = 3 }, true},
		{"the limit of which a floor is a part", func() { cfg.Pools[0].TPM = 300_000 }, true},
		{"a leaf", func() { cfg.Tenants[1].Members = &Members{} }, true},
		{"a tenant less", func() { cfg.Tenants = cfg.Tenants[:1] }, true},
	} {
		before := p.measure.view
		change.make()
		testkit.OK(t, g.Apply(cfg))
		if anew := p.measure.view != before; anew != change.anew {
			t.Errorf("%s changes: the pool is measured anew: %v", change.what, anew)
		}
		made := p.newView()
		if diff := cmp.Diff(made.floors, p.measure.view.floors); diff != "" {
			t.Errorf("%s changes: floors are measured by others (-want +got):\n%s", change.what, diff)
		}
		if !slices.Equal(made.leaves, p.measure.view.leaves) {
			t.Errorf("%s changes: other leaves are measured", change.what)
		}
	}
}

// TestShares_Apply: a pool that is measured while an Apply has changed its tree, but not yet made the meter's view anew, is not asked for
// nodes that are gone.
func TestShares_Apply(t *testing.T) {
	for _, shared := range []bool{true, false} { // without a grant, so that there never was a call
		synctest.Test(t, func(t *testing.T) {
			cfg := Config{Shared: shared, Pools: []Pool{{Name: "p", TPM: 600_000}}, Tenants: []Tenant{{Name: "a"}, {Name: "b"}}}
			g := must(t, cfg)
			l, rej := g.Acquire(t.Context(), demand("b", 1000))
			if (rej == nil) == shared {
				t.Fatal(rej)
			}
			if rej == nil {
				l.Settle(Usage{Output: 1000})
			}
			time.Sleep(measureEvery / 2)
			p := g.pools["p"]
			cfg.Tenants = cfg.Tenants[:1]
			g.apply(g.lock(), cfg, &recall{tally: g.tally})
			g.unlock()
			time.Sleep(measureEvery)
			g.lock()
			g.review()
			g.unlock()
			time.Sleep(measureEvery)
			if got, _ := p.measure.figures(); len(got.Leaves) != 1 {
				t.Errorf("measured are %+v", got.Leaves)
			}
		})
	}
}
