package runner_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/maxmin"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// withBands runs a test with gateways that share 24 slots, of which calls of tenant c, in the lowest band, leave 6 free.
func withBands(t *testing.T, gateways int, run func(t *testing.T, f *fleet, list []*berth, calls *sync.WaitGroup)) {
	withFleet(t, 24, gateways, func(p *governor.Pool) { p.HoldBackPPM = 250_000 }, func(t *testing.T, f *fleet, list []*berth, calls *sync.WaitGroup) {
		cfg := f.config(func(p *governor.Pool) { p.HoldBackPPM = 250_000 })
		cfg.Tenants[2].Below = escrow.LowestBand
		for _, b := range list {
			testkit.OK(t, b.Apply(cfg))
		}
		run(t, f, list, calls)
	})
}

// TestSlots_Bands: calls of the lowest band, at one gateway or at all, never take the slots that they leave free, over all gateways, and use
// all others. A burst of the highest band finds these within some beats of the gateways, wherever it comes in.
func TestSlots_Bands(t *testing.T) {
	for what, at := range map[string][]int{"at one gateway": {0}, "at all": {0, 1, 2}} {
		t.Run(what, func(t *testing.T) {
			withBands(t, 3, func(t *testing.T, f *fleet, list []*berth, calls *sync.WaitGroup) {
				for _, i := range at {
					f.flood(calls, list[i], "c", 60/len(at), 40*time.Second, time.Second)
				}
				f.watch(15*time.Second, 20*time.Second)
				got := f.seen().had["c"].Seconds() / 20
				t.Logf("the lowest band had %.2f of 24 slots, at most %d", got, f.seen().most)
				if f.seen().most > 18 || got < 16.5 {
					t.Errorf("the lowest band had %.2f slots and at most %d at once, want nearly 18, and no more", got, f.seen().most)
				}
				var burst sync.WaitGroup
				for range 6 {
					burst.Go(func() {
						came := time.Now()
						if rej := f.call(list[1], "a", false, time.Second); rej != nil {
							t.Errorf("a call of a burst is refused: %v", rej)
						}
						if took := time.Since(came); took > 6*time.Second {
							t.Errorf("a call of a burst that takes a second was served after %v", took)
						}
					})
				}
				burst.Wait()
			})
		})
	}
}

// TestSlots_BandsElsewhere: calls of the lowest band leave slots free also if those of higher bands run at other gateways, which have none of
// the lowest.
func TestSlots_BandsElsewhere(t *testing.T) {
	withBands(t, 2, func(t *testing.T, f *fleet, list []*berth, calls *sync.WaitGroup) {
		f.flood(calls, list[0], "a", 8, 40*time.Second, time.Second)
		f.flood(calls, list[1], "c", 60, 40*time.Second, time.Second)
		f.watch(15*time.Second, 20*time.Second)
		seen := f.seen()
		got := seen.had["c"].Seconds() / 20
		t.Logf("beside 8 calls elsewhere the lowest band had %.2f of 24 slots, and %d were in use at most", got, seen.most)
		if seen.most > 18 || got < 8.5 {
			t.Errorf("beside 8 calls elsewhere the lowest band had %.2f slots, and %d were in use at most, want nearly 10, and at most 18", got, seen.most)
		}
	})
}

// TestSlots_BandsImpatient: calls of the lowest band that may not wait find nearly all slots that they need not leave free, wherever
// others run: gateways without calls of a band keep room for the first.
func TestSlots_BandsImpatient(t *testing.T) {
	withBands(t, 3, func(t *testing.T, f *fleet, list []*berth, calls *sync.WaitGroup) {
		cfg := f.config(func(p *governor.Pool) { p.HoldBackPPM = 250_000 })
		cfg.Tenants[3].Below = escrow.LowestBand
		for _, b := range list {
			testkit.OK(t, b.Apply(cfg))
		}
		time.Sleep(5 * time.Second)
		for range 10 {
			calls.Go(func() { f.call(list[0], "a", false, 8*time.Second) })
		}
		time.Sleep(3 * time.Second)
		for range 30 {
			calls.Go(func() { f.call(list[1], "now", false, time.Second) })
		}
		time.Sleep(time.Second)
		if n := f.seen().most; n < 15 || n > 18 {
			t.Errorf("beside 10 calls elsewhere %d of 24 slots are in use, want nearly 18", n)
		}
	})
}

// TestSlots_Passed: gateways whose calls may take more than their parts of what hold-back and soft cap leave others tell of it once a second, as
// long as nobody waits.
func TestSlots_Passed(t *testing.T) {
	run := func(t *testing.T, f *fleet, list []*berth, calls *sync.WaitGroup) {
		f.flood(calls, list[0], "a", 11, 40*time.Second, time.Second)
		f.flood(calls, list[1], "b", 11, 40*time.Second, time.Second)
		time.Sleep(15 * time.Second)
		before := list[0].way.beats.Load()
		time.Sleep(20 * time.Second)
		n := list[0].way.beats.Load() - before
		if t.Logf("%d beats in 20 s", n); n > 25 {
			t.Errorf("with 22 of 24 slots in use it tells %d times in 20 s, want 20", n)
		}
	}
	t.Run("hold-back", func(t *testing.T) { withBands(t, 2, run) })
	t.Run("soft cap", func(t *testing.T) {
		withFleet(t, 24, 2, func(p *governor.Pool) { p.SoftCapPPM = 500_000 }, run)
	})
}

// TestSlots_BandsShare: beside tenants of higher bands that always have calls waiting, one of the lowest has its share of the slots, over all
// gateways and wherever each comes in within 4 %. It lacks 2.4 % on average, for as long as it runs: 120 runs gave it 0.2421 to 0.2456, because
// slots that go from one gateway to the other are in use by nobody meanwhile, and those are its slots. At one gateway it has 0.249 or more.
func TestSlots_BandsShare(t *testing.T) {
	withBands(t, 2, func(t *testing.T, f *fleet, list []*berth, calls *sync.WaitGroup) {
		f.flood(calls, list[0], "a", 60, 4*time.Minute, time.Second)
		f.flood(calls, list[0], "c", 30, 4*time.Minute, time.Second)
		f.flood(calls, list[1], "c", 30, 4*time.Minute, time.Second)
		f.watch(40*time.Second, 3*time.Minute)
		seen := f.seen()
		part := seen.had["c"].Seconds() / seen.busy.Seconds()
		t.Logf("the lowest band had %.4f of the slots in use, which were %.2f of 24", part, seen.busy.Seconds()/180)
		if math.Abs(part/0.25-1) > 0.04 || seen.busy.Seconds()/180 < 23 {
			t.Errorf("the lowest band had %.4f of the slots in use, want a quarter; %.2f of 24 were in use", part, seen.busy.Seconds()/180)
		}
	})
}

// TestSlots_SoftCap: a tenant that asks for all slots, at one gateway or at each, has its soft cap of them over all gateways, and
// another one the rest.
func TestSlots_SoftCap(t *testing.T) {
	for what, at := range map[string][]int{"at one gateway": {0}, "at all": {0, 1, 2}} {
		t.Run(what, func(t *testing.T) {
			withFleet(t, 24, 3, func(p *governor.Pool) { p.SoftCapPPM = 500_000 }, func(t *testing.T, f *fleet, list []*berth, group *sync.WaitGroup) {
				for _, i := range at {
					f.flood(group, list[i], "a", 60/len(at), time.Minute, time.Second)
				}
				f.watch(15*time.Second, 20*time.Second)
				got := f.seen().had["a"].Seconds() / 20
				t.Logf("alone it had %.2f of 24 slots, at most %d", got, f.seen().most)
				if f.seen().most > 12 || got < 9 {
					t.Errorf("alone it had %.2f slots and at most %d at once, want nearly 12, and no more", got, f.seen().most)
				}
				for _, i := range at {
					f.flood(group, list[i], "b", 60/len(at), 25*time.Second, time.Second)
				}
				f.watch(5*time.Second, 15*time.Second)
				got = f.seen().had["a"].Seconds() / 15
				other := f.seen().had["b"].Seconds() / 15
				t.Logf("beside another it had %.2f, the other %.2f", got, other)
				if got < 10 || got > 12.5 || other < 10 {
					t.Errorf("it had %.2f slots, and another %.2f, want nearly 12 each", got, other)
				}
			})
		})
	}
}

// TestSlots_SoftCapImpatient: calls that may not wait are served up to their tenant's soft cap of all slots, though only a few are
// granted to their gateway when they come. Beyond the cap they are refused.
func TestSlots_SoftCapImpatient(t *testing.T) {
	withFleet(t, 24, 3, func(p *governor.Pool) { p.SoftCapPPM = 500_000 }, func(t *testing.T, f *fleet, list []*berth, _ *sync.WaitGroup) {
		time.Sleep(5 * time.Second)
		var calls sync.WaitGroup
		for range 30 {
			calls.Go(func() { f.call(list[1], "now", false, time.Second) })
		}
		calls.Wait()
		if n := f.seen().refused[governor.ReasonConcurrency]; f.seen().most < 10 || f.seen().most > 12 || n != 30-f.seen().most {
			t.Errorf("of 30 calls where 24 slots are free, of which one tenant may have 12, %d ran and %d were refused", f.seen().most, n)
		}
		if f.seen().waited > 250*time.Millisecond {
			t.Errorf("one waited %v", f.seen().waited)
		}
	})
}

// TestSlots_SoftCapApart: two tenants that each come in at a gateway of their own have their soft cap of all slots each. Before, the
// cap was a part of the slots granted to each gateway, and half of all slots were idle.
func TestSlots_SoftCapApart(t *testing.T) {
	withFleet(t, 24, 2, func(p *governor.Pool) { p.SoftCapPPM = 500_000 }, func(t *testing.T, f *fleet, list []*berth, group *sync.WaitGroup) {
		f.flood(group, list[0], "a", 60, 40*time.Second, time.Second)
		f.flood(group, list[1], "b", 60, 40*time.Second, time.Second)
		f.watch(10*time.Second, 20*time.Second)
		a := f.seen().had["a"].Seconds() / 20
		b := f.seen().had["b"].Seconds() / 20
		t.Logf("they had %.2f and %.2f of 24 slots", a, b)
		if a < 11 || a > 12.5 || b < 11 || b > 12.5 { // a slot that is on its way is lent: in 400 runs up to 12.21
			t.Errorf("they had %.2f and %.2f of 24 slots, want nearly 12 each", a, b)
		}
	})
}

// TestSlots_SoftCapWorlds: in random worlds of gateways and callers no tenant ever runs more than its soft cap, or than what is lent,
// and each has what an oracle gives it that sees all calls in one place.
func TestSlots_SoftCapWorlds(t *testing.T) {
	for seed := range uint64(testkit.Rounds(4, 10)) {
		rng := rand.New(rand.NewPCG(seed, 11))
		gateways := 1 + rng.IntN(4)
		const slots = 32
		capPPM := 100_000 + rng.Int64N(700_000)
		callers := map[string]int{}
		at := map[string]int{} // the first of the gateways that a tenant comes in at, in turn
		for _, tenant := range []string{"a", "b", "c"} {
			callers[tenant] = 1 + rng.IntN(50)
			at[tenant] = rng.IntN(gateways)
		}
		each := max(1, slots*int(capPPM)/1_000_000)
		what := fmt.Sprintf("world %d: %d gateways, %d slots, %d for each once none is lent, callers %v", seed, gateways, slots, each, callers)
		withFleet(t, slots, gateways, func(p *governor.Pool) { p.SoftCapPPM = capPPM }, func(t *testing.T, f *fleet, list []*berth, group *sync.WaitGroup) {
			for tenant, n := range callers {
				spread := 1 + n%gateways
				for i := range n {
					f.flood(group, list[(at[tenant]+i%spread)%gateways], tenant, 1, 35*time.Second, time.Second)
				}
			}
			f.watch(10*time.Second, 20*time.Second)
			seen := f.seen()
			want, borrows := softCapOracle(slots, each, callers)
			sum := 0.0
			for tenant, share := range want {
				had := seen.had[tenant].Seconds() / 20
				sum += had
				if math.Abs(had-share) > 1.5+share/20 && !borrows {
					t.Errorf("%s: tenant %s had %.2f slots, want %.2f", what, tenant, had, share)
				}
				if most := max(each, slots/2); seen.peak[tenant] > most {
					t.Errorf("%s: tenant %s ran %d calls at once, want at most %d", what, tenant, seen.peak[tenant], most)
				}
			}
			if all := min(slots/2, callers["a"]+callers["b"]+callers["c"]); borrows && (sum < float64(all)-1.5 || sum > float64(all)+1) {
				t.Errorf("%s: %.2f slots were lent, want %d", what, sum, all)
			}
		})
	}
}

// softCapOracle is how many slots each tenant of withFleet has, by so many callers and a soft cap of so many calls. borrows says that
// they have less than half of the slots by that, and share this half.
func softCapOracle(slots, each int, callers map[string]int) (want map[string]float64, borrows bool) {
	names := []string{"a", "b", "c"}
	var claims []maxmin.Claim
	sum := 0
	for i, tenant := range names {
		demand := min(callers[tenant], each)
		sum += demand
		claims = append(claims, maxmin.Claim{ID: i, Weight: []float64{3, 1, 1}[i], Demand: float64(demand)})
	}
	maxmin.Divide(float64(slots), claims)
	want = map[string]float64{}
	for _, c := range claims {
		want[names[c.ID]] = c.Share
	}
	return want, sum < slots/2
}
