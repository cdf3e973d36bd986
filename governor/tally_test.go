package governor

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow/budget"
)

// Budgets that a reload adds count what was used before in their period: of a tenant, of what it is
// a team of, and of a pool; what runs at the reload counts when it ends, once.
func TestReload_NewBudgetsCountWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Pools:   []Pool{wide("p"), wide("q")},
			Tenants: []Tenant{{Name: "a", Weight: 1000}, {Name: "a/team", Weight: 1000}, {Name: "b", Weight: 1000}},
		}
		g := must(t, cfg)
		time.Sleep(90 * time.Minute)
		call := func(tenant, pool string, tokens int64) Lease {
			l := admitted(t, g, Request{Tenant: tenant, Pool: pool, Output: tokens})
			return l
		}
		call("a", "p", 500).Settle(Usage{Output: 300})
		call("a/team", "q", 50).Settle(Usage{Output: 40})
		call("b", "p", 7).Settle(Usage{Output: 7})
		running := call("a", "p", 1000)

		budgets := []Budget{{UnitTokens, 2000, budget.Day}, {UnitRequests, 100, budget.Hour}, {UnitTokens, 2000, budget.Month}}
		pools := []Pool{wide("p", Budget{UnitTokens, 1e6, budget.Day}), wide("q")}
		cfg.Pools = pools
		cfg.Tenants[0].Budgets = budgets
		apply(t, g, cfg)
		check := func(when string, tokens, requests, ofPool int64) {
			t.Helper()
			for k, want := range []int64{tokens, requests, tokens} {
				if b := spent(g, 0, k); b.Used != want {
					t.Errorf("%s: of the tenant's %s %d are used, want %d", when, b.Name(), b.Used, want)
				}
			}
			if got := g.State().Pools[0].Budgets[0].Used; got != ofPool {
				t.Errorf("%s: of the pool's %d are used, want %d", when, got, ofPool)
			}
		}
		check("at the reload", 340, 2, 307)
		running.Settle(Usage{Output: 600})
		check("when the running call has ended", 940, 3, 907)
		apply(t, g, cfg)
		call("a", "p", 10).Settle(Usage{Output: 10})
		check("after another reload and call", 950, 4, 917)

		cfg.Pools = []Pool{wide("p"), wide("q")}
		cfg.Tenants[0].Budgets = nil
		apply(t, g, cfg)
		call("a", "p", 1000).Settle(Usage{Output: 900})
		cfg.Pools = pools
		cfg.Tenants[0].Budgets = budgets
		apply(t, g, cfg)
		check("when they are back", 1850, 5, 1817)
		time.Sleep(time.Hour)
		check("in the next hour", 1850, 0, 1817)
	})
}

// With a journal, a budget that a reload adds counts also what the processes before this one used.
func TestReload_NewBudgetsCountWhatTheJournalKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &memory{left: -1}
		cfg := Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1000}}, Journal: journal}
		for range 2 {
			g := must(t, cfg)
			l := admitted(t, g, demand("a", 300))
			l.Settle(Usage{Output: 250})
			time.Sleep(time.Hour)
			cfg.Past = journal.past(time.UTC)
		}
		g := must(t, cfg)
		cfg.Pools[0].Budgets = []Budget{{UnitTokens, 1000, budget.Day}}
		cfg.Tenants[0].Budgets = []Budget{{UnitTokens, 1000, budget.Day}}
		apply(t, g, cfg)
		if own, pool := spent(g, 0, 0).Used, g.State().Pools[0].Budgets[0].Used; own != 500 || pool != 500 {
			t.Errorf("of the tenant's %d are used and of the pool's %d, want 500 of both", own, pool)
		}
	})
}

// A call that runs while a budget's limit becomes so large that it is counted in other units, and small
// again, counts once.
func TestReload_ReplacedBudgetsCountRunningCallsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := (*Governor)(nil)
		cfg := Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1000}}}
		var l Lease
		for i, limit := range []int64{1e11, 1e14, 1e11} {
			list := []Budget{{UnitMicroUSD, limit, budget.Month}}
			cfg.Pools = []Pool{wide("p", list...)}
			cfg.Tenants[0].Budgets = list
			if i > 0 {
				apply(t, g, cfg)
				continue
			}
			g = must(t, cfg)
			l, _ = g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Output: 1000, Price: Price{Output: 1e6}})
		}
		l.Settle(Usage{Output: 1000})
		if own, pool := spent(g, 0, 0).Used, g.State().Pools[0].Budgets[0].Used; own != 1000 || pool != 1000 {
			t.Errorf("the tenant's budget has %d and the pool's %d, want 1000 in both", own, pool)
		}
	})
}

// Whatever runs, waits and ends while budgets come and go, a budget that has come last counts
// each call once.
func TestReload_NewBudgetsCountEachCallOnce(t *testing.T) {
	const callers, rounds = 16, 40
	cfg := Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1000}}}
	cfg.Pools[0].Concurrency = callers / 2
	cfg.Tenants[0].MaxWait = time.Minute
	with := func(limit int64) Config {
		c := cfg
		c.Pools = []Pool{cfg.Pools[0]}
		c.Tenants = []Tenant{cfg.Tenants[0]}
		if limit > 0 {
			list := []Budget{{UnitTokens, limit, budget.Month}}
			c.Pools[0].Budgets = list
			c.Tenants[0].Budgets = list
		}
		return c
	}
	g := must(t, cfg)
	var group sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	took := int64(0)
	for range callers {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l, rej := Rejected(g.Acquire(t.Context(), demand("a", 100)))
				if rej != nil {
					t.Error(rej)
					return
				}
				n := rand.Int64N(200)
				l.Settle(Usage{Output: n})
				mu.Lock()
				took += n
				mu.Unlock()
			}
		})
	}
	for range rounds {
		for _, limit := range []int64{1e11, 0, 2e11} {
			apply(t, g, with(limit))
		}
	}
	close(stop)
	group.Wait()
	if own, pool := spent(g, 0, 0).Used, g.State().Pools[0].Budgets[0].Used; own != took || pool != took {
		t.Errorf("of the tenant's %d are used and of the pool's %d, but calls took %d", own, pool, took)
	}
}

// Calls that are counted at their end stand in the books as a journal's records of them would, and in no other hour than that
// of their end, also when clocks are put back.
func TestUses_TakeIsARecordOfAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		taken := NewUses(time.UTC)
		read := NewUses(time.UTC)
		now := time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)
		var latest time.Time
		inHour := map[Owner]map[time.Time]int64{{"a", "p"}: {}, {"b", "p"}: {}}
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(-10, 100).Draw(t, "minutes")) * time.Minute)
			if now.After(latest) {
				latest = now
			}
			who := Owner{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"), "p"}
			took := Spend{rapid.Int64Range(0, maxTokens).Draw(t, "tokens"), 1, 0}
			inHour[who][latest.Truncate(time.Hour)] += took[UnitTokens]
			row := taken.row(who)
			taken.take(now, row, took)
			read.Read(&Record{Kind: RecordEnded, Tenant: who.Tenant, Pool: who.Pool, Held: now, Ended: now, Took: Charge{Spend: took}})
			if diff := cmp.Diff(read.Changed(), map[Owner]Use{who: row.Use}); diff != "" {
				t.Fatalf("at %v: %s", now, diff)
			}
			if got, want := row.Used[budget.Hour][UnitTokens], inHour[who][latest.Truncate(time.Hour)]; got != want {
				t.Fatalf("at %v: %d tokens in this hour, %d are right", now, got, want)
			}
		}
	})
}
