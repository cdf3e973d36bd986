package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// cachedWorld is two equal tenants of which "kept" has nine tenths of each prompt in
// the provider's cache.
func cachedWorld(w TokenWeights) Config {
	return Config{
		Pools: []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000, Weights: w}},
		Tenants: []Tenant{
			{Name: "kept", Weight: 1, MaxWait: time.Hour},
			{Name: "fresh", Weight: 1, MaxWait: time.Hour},
		},
	}
}

// prompts keeps workers of a tenant sending calls of 1000 tokens in and 100 out, which
// run for a second, and adds what they took to sum.
func prompts(ctx context.Context, g *Governor, wg *sync.WaitGroup, name string, workers int, cached int64, calls *atomic.Int64) {
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, rej := g.Acquire(ctx, Request{Tenant: name, Pool: "p", Input: 1000, Output: 100})
				if rej != nil {
					continue
				}
				time.Sleep(time.Second)
				l.Settle(Usage{Input: 1000, CachedInput: cached, Output: 100})
				calls.Add(1)
			}
		})
	}
}

// What came from a cache fills the pool's ledger, if the provider counts it, and counts
// in nobody's share: both tenants get as many tokens that were not cached, 200 a call of
// the one and 1100 of the other, so it gets eleven calls for two. By the ledger, where
// each call is 1100, that is 11/13 of the pool; and where cached input counts nothing
// there, the half of it.
func TestCachedInputCountsInNoShare(t *testing.T) {
	for _, tt := range []struct {
		name        string
		w           TokenWeights
		kept, fresh float64 // of what the pool books
	}{
		{"cached_input: 1", TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, Audio: 1}, 11. / 13, 2. / 13},
		{"cached_input: 0", TokenWeights{Input: 1, CachedInput: 0, Output: 1, Reasoning: 1, Audio: 1}, 1. / 2, 1. / 2},
	} {
		testkit.Virtual(t, tt.name, func(t *testing.T) {
			g := must(t, cachedWorld(tt.w))
			kept, fresh := keptAndFresh(t, g)
			cost := g.pools["p"].weights.cost(Usage{Input: 1000, CachedInput: 900, Output: 100})
			booked := [2]float64{float64(kept * cost), float64(fresh * 1100)}
			all := booked[0] + booked[1]
			t.Logf("%.4f of the limit is used", all/6_000_000)
			near(t, map[string]float64{"kept": booked[0] / all, "fresh": booked[1] / all}, map[string]float64{"kept": tt.kept, "fresh": tt.fresh})
		})
	}
}

// keptAndFresh floods a pool for 13 minutes with prompts of two tenants, of which one has most
// in the cache, and counts the calls of each in the last ten.
func keptAndFresh(t *testing.T, g *Governor) (kept, fresh int64) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var a, b atomic.Int64
	prompts(ctx, g, &wg, "kept", 60, 900, &a)
	prompts(ctx, g, &wg, "fresh", 60, 0, &b)
	time.Sleep(3 * time.Minute)
	a.Store(0)
	b.Store(0)
	time.Sleep(10 * time.Minute)
	kept = a.Load()
	fresh = b.Load()
	stop()
	wg.Wait()
	return kept, fresh
}

// A floor is a part of the pool's tokens a minute, as the pool counts them: what
// another has in the cache does not stretch that one's floor over theirs.
//
// Catches: floors paid by what counts in shares.
func TestCachedInputStretchesNoFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := cachedWorld(TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, Audio: 1})
		cfg.Tenants[0].Floor = 150_000
		cfg.Tenants[1].Floor = 150_000
		g := must(t, cfg)
		kept, fresh := keptAndFresh(t, g)
		// tokens a minute
		a := kept * 110
		b := fresh * 110
		t.Logf("kept %d, fresh %d a minute", a, b)
		if b < 150_000*97/100 {
			t.Errorf("beside a tenant whose prompts are cached, one with a floor of 150000 gets %d", b)
		}
	})
}

// The same where only the tenant with the cache has a floor, below its share of the
// limit: the other is not starved.
func TestCachedFloorBelowTheShareStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := cachedWorld(TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, Audio: 1})
		cfg.Tenants[0].Floor = 150_000
		g := must(t, cfg)
		kept, fresh := keptAndFresh(t, g)
		a := kept * 110
		b := fresh * 110
		t.Logf("kept %d, fresh %d a minute", a, b)
		if b < 600_000*2/13*9/10 {
			t.Errorf("who has no floor gets %d a minute, want two calls for eleven", b)
		}
	})
}

// I11: who hides large prompts that are new behind small ones that are cached gets no
// more of what counts in shares than who sends the large ones alone, however long they
// run before it shows.
//
// Catches: shares that are never settled to what was not cached.
func TestI11_MixedPromptsGainNothing(t *testing.T) {
	for _, run := range []time.Duration{2 * time.Second, 20 * time.Second, 60 * time.Second} {
		testkit.Virtual(t, run.String(), func(t *testing.T) {
			g := must(t, cachedWorld(TokenWeights{Input: 1, CachedInput: 0, Output: 1, Reasoning: 1, Audio: 1}))
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var mixed, plain atomic.Int64
			send := func(name string, workers int, in, cached, out int64, run time.Duration, sum *atomic.Int64) {
				for range workers {
					wg.Go(func() {
						for ctx.Err() == nil {
							l, rej := g.Acquire(ctx, Request{Tenant: name, Pool: "p", Input: in, Output: out})
							if rej != nil {
								continue
							}
							time.Sleep(run)
							l.Settle(Usage{Input: in, CachedInput: cached, Output: out})
							sum.Add(in - cached + out)
						}
					})
				}
			}
			send("kept", 40, 1000, 1000, 1, 500*time.Millisecond, &mixed)
			send("kept", 200, 5000, 0, 100, run, &mixed)
			send("fresh", 200, 5000, 0, 100, run, &plain)
			time.Sleep(5 * time.Minute)
			mixed.Store(0)
			plain.Store(0)
			time.Sleep(30 * time.Minute) // calls come in waves, of which one more or less may end within it
			if a, b := mixed.Load(), plain.Load(); a > b*102/100 {
				t.Errorf("who mixes gets %d, who does not %d", a, b)
			}
			stop()
			wg.Wait()
		})
	}
}

func TestTokenWeights(t *testing.T) {
	w := countsOf(&TokenWeights{Input: 1, CachedInput: 0.1, Output: 4, Reasoning: 2, Audio: 8})
	for _, tt := range []struct {
		name       string
		u          Usage
		cost, fair int64
		in, out    int64 // of the tenant's own itpm and otpm
	}{
		{"nothing", Usage{}, 0, 0, 0, 0},
		{"input", Usage{Input: 1000}, 1000, 1000, 1000, 0},
		{"cached input", Usage{Input: 1000, CachedInput: 600}, 400 + 60, 400, 460, 0},
		{"all cached", Usage{Input: 1000, CachedInput: 1000}, 100, 0, 100, 0},
		{"output", Usage{Output: 100}, 400, 400, 0, 400},
		{"reasoning", Usage{Output: 100, Reasoning: 50}, 50*4 + 50*2, 300, 0, 300},
		{"sound in", Usage{Input: 1000, AudioInput: 30}, 970 + 30*8, 1210, 1210, 0},
		{"sound out", Usage{Output: 100, AudioOutput: 10}, 90*4 + 10*8, 440, 0, 440},
		{
			"all kinds",
			Usage{Input: 1000, CachedInput: 600, Output: 100, Reasoning: 50, AudioInput: 30, AudioOutput: 10},
			370 + 60 + 30*8 + 40*4 + 50*2 + 10*8, 370 + 30*8 + 40*4 + 50*2 + 10*8, 370 + 60 + 30*8, 40*4 + 50*2 + 10*8,
		},
		{"a token's tenth is a token", Usage{Input: 1, CachedInput: 1}, 1, 0, 1, 0},
		{"it is rounded once", Usage{Input: 15, CachedInput: 15}, 2, 0, 2, 0},
		{"parts over their whole", Usage{Input: 10, CachedInput: 90, AudioInput: 90, Output: 5, Reasoning: 90, AudioOutput: 90}, 1 + 10, 10, 1, 10},
	} {
		if got := w.cost(tt.u); got != tt.cost {
			t.Errorf("%s: cost %d, want %d", tt.name, got, tt.cost)
		}
		if got := w.fair(tt.u); got != tt.fair {
			t.Errorf("%s: %d count in the share, want %d", tt.name, got, tt.fair)
		}
		own := w.ownCost(tt.u, 1)
		if want := (limits.Cost{1, tt.cost, tt.in, tt.out}); own != want {
			t.Errorf("%s: own limits count %v, want %v", tt.name, own, want)
		}
	}
	if got := new(tokenWeights).cost(Usage{Input: 1000, CachedInput: 600, Output: 100, Reasoning: 50}); got != 1100 {
		t.Errorf("unweighted cost %d, want 1100", got)
	}
}

// Weights by which each token is one cost as much as none.
func TestWeights_Even(t *testing.T) {
	even := tokenWeights{1000, 1000, 1000, 1000, 1000, 1000}
	none := tokenWeights{}
	rapid.Check(t, func(t *rapid.T) {
		u := drawUsage(t)
		if even.cost(u) != none.cost(u) || even.fair(u) != none.fair(u) || even.held(u.Input, u.Output) != none.held(u.Input, u.Output) {
			t.Fatalf("%+v costs %d, in the share %d, at most %d; without weights %d, %d, %d", u,
				even.cost(u), even.fair(u), even.held(u.Input, u.Output), none.cost(u), none.fair(u), none.held(u.Input, u.Output))
		}
	})
}

// drawUsage draws small counts whose parts fit into their wholes.
func drawUsage(t *rapid.T) Usage {
	u := Usage{Input: rapid.Int64Range(0, 300).Draw(t, "input"), Output: rapid.Int64Range(0, 300).Draw(t, "output")}
	u.CachedInput = rapid.Int64Range(0, u.Input).Draw(t, "cached")
	u.AudioInput = rapid.Int64Range(0, u.Input-u.CachedInput).Draw(t, "audio in")
	u.Reasoning = rapid.Int64Range(0, u.Output).Draw(t, "reasoning")
	u.AudioOutput = rapid.Int64Range(0, u.Output-u.Reasoning).Draw(t, "audio out")
	return u
}

// The weights are those of an oracle that pays token by token; what counts in the
// share, and the most that is held, follow from it.
func TestWeightsAgainstTokenByToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Int64Range(0, 20_000)
		w := tokenWeights{weight.Draw(t, "w in"), weight.Draw(t, "w cached"), weight.Draw(t, "w out"), weight.Draw(t, "w reasoning"), weight.Draw(t, "w audio"), weight.Draw(t, "w held")}
		if w.none() {
			t.Skip("that is no weights at all")
		}
		u := drawUsage(t)
		milli := int64(0)
		cached := int64(0)
		for i := range u.Input {
			switch {
			case i < u.CachedInput:
				milli += w.CachedInput
				cached += w.CachedInput
			case i < u.CachedInput+u.AudioInput:
				milli += w.Audio
			default:
				milli += w.Input
			}
		}
		for i := range u.Output {
			switch {
			case i < u.Reasoning:
				milli += w.Reasoning
			case i < u.Reasoning+u.AudioOutput:
				milli += w.Audio
			default:
				milli += w.Output
			}
		}
		cost := w.cost(u)
		if cost*1000 < milli || cost*1000-milli >= 1000 {
			t.Fatalf("cost %d of %d thousandths", cost, milli)
		}
		if fair := w.fair(u); fair*1000 < milli-cached || fair*1000-(milli-cached) >= 1000 {
			t.Fatalf("%d count in the share, of %d thousandths", fair, milli-cached)
		}
		if most := w.most(u.Input, u.Output); most < cost {
			t.Fatalf("the most that it can cost is %d, and it cost %d", most, cost)
		}
		if held := w.held(0, u.Output); w.HeldOutput > 0 && held != (u.Output*w.HeldOutput+999)/1000 || w.HeldOutput == 0 && held != w.most(0, u.Output) {
			t.Fatalf("%d are held of %d", held, u.Output)
		}
		if own := w.ownCost(u, 1); own[limits.Tokens] != cost || own[limits.Input]+own[limits.Output] < cost || own[limits.Input]+own[limits.Output] > cost+1 {
			t.Fatalf("own limits count %v of a cost of %d", own, cost)
		}
	})
}

// A budget in tokens counts what the pool's ledger does, one in money by the price of
// input, cached input and output, whatever the weights.
func TestBudgetsCountKinds(t *testing.T) {
	g := must(t, Config{
		Pools: []Pool{{Name: "p", TPM: 1e9, Weights: TokenWeights{Input: 1, CachedInput: 0, Output: 2, Reasoning: 3, Audio: 5}}},
		Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{
			{Unit: UnitTokens, Limit: 1e9, Per: budget.Day}, {Unit: UnitMicroUSD, Limit: 1e9, Per: budget.Day},
		}}},
	})
	lease := admitted(t, g, Request{Tenant: "a", Pool: "p", Input: 1000, Output: 500, Price: &Price{Input: 3e6, CachedInput: 1e6, Output: 15e6, AudioOutput: 15e6}})
	lease.Settle(Usage{Input: 1000, CachedInput: 900, Output: 200, Reasoning: 100, AudioOutput: 50})
	st, _ := g.TenantState("a")
	for i, want := range []int64{100 + 50*2 + 100*3 + 50*5, 100*3 + 900*1 + 200*15} {
		if b := st.Budgets[i]; b.Used != want {
			t.Errorf("%s: %d used, want %d", b.Budget.Name(), b.Used, want)
		}
	}
}

// What the provider does beside its limits counts in budgets, whatever is left of them,
// and nowhere else: not even as a turn.
func TestBudgetsOnly(t *testing.T) {
	perDay := []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}
	for _, accounting := range []escrow.Accounting{escrow.AdmitMax, escrow.Production, escrow.Settled} {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 6000, RPM: 60, Concurrency: 4, MaxQueue: 10, Accounting: accounting, Budgets: perDay}},
			Tenants: []Tenant{{Name: "a", Weight: 1, TPM: 500, ITPM: 500, OTPM: 500, RPM: 5, Budgets: perDay}, {Name: "b", Weight: 1}},
		})
		u := Usage{Input: 100_000, CachedInput: 50_000, Output: 40_000}
		lease := admitted(t, g, Request{Tenant: "a", Pool: "p", Input: u.Input, Output: u.Output, Forced: true, BudgetsOnly: true})
		if !lease.Charge(u) || lease.Charge(u) {
			t.Error("it was not charged once")
		}
		st := g.State()
		for _, axis := range st.Pools[0].Axes {
			if axis.Used != 0 {
				t.Errorf("%v: the pool counts %d", accounting, axis.Used)
			}
		}
		a, _ := g.TenantState("a")
		for _, l := range a.Limits {
			if l.Used != 0 {
				t.Errorf("%v: its own limit of %s counts %d", accounting, l.Axis, l.Used)
			}
		}
		for _, b := range append(a.Budgets, st.Pools[0].Budgets...) {
			if b.Used != 140_000 {
				t.Errorf("%v: %s: %d used, want 140000", accounting, b.Budget.Name(), b.Used)
			}
		}
	}
}
