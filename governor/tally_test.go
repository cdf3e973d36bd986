package governor

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Budgets that a reload adds count what was used before in their period: of a tenant, of what it is
// a team of, and of a pool; what runs at the reload counts when it ends, once.
func TestReload_NewBudgetsCountWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Pools:   []Pool{wide("p"), wide("q")},
			Tenants: []Tenant{{Name: "a", Weight: 1}, {Name: "a/team", Weight: 1}, {Name: "b", Weight: 1}},
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

		budgets := []Budget{{Unit: UnitTokens, Limit: 2000, Per: budget.Day}, {Unit: UnitRequests, Limit: 100, Per: budget.Hour}, {Unit: UnitTokens, Limit: 2000, Per: budget.Month}}
		pools := []Pool{wide("p", Budget{Unit: UnitTokens, Limit: 1e6, Per: budget.Day}), wide("q")}
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
		cfg := Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1}}, Journal: journal}
		for range 2 {
			g := must(t, cfg)
			l := admitted(t, g, demand("a", 300))
			l.Settle(Usage{Output: 250})
			time.Sleep(time.Hour)
			cfg.Past = journal.past(time.UTC)
		}
		g := must(t, cfg)
		cfg.Pools[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}
		cfg.Tenants[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}
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
		cfg := Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1}}}
		var l Lease
		for i, limit := range []int64{1e11, 1e14, 1e11} {
			list := []Budget{{Unit: UnitMicroUSD, Limit: limit, Per: budget.Month}}
			cfg.Pools = []Pool{wide("p", list...)}
			cfg.Tenants[0].Budgets = list
			if i > 0 {
				apply(t, g, cfg)
				continue
			}
			g = must(t, cfg)
			l, _ = g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Output: 1000, Price: &Price{Output: 1e6}})
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
	cfg := Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1}}}
	cfg.Pools[0].Concurrency = callers / 2
	cfg.Tenants[0].MaxWait = time.Minute
	with := func(limit int64) Config {
		c := cfg
		c.Pools = []Pool{cfg.Pools[0]}
		c.Tenants = []Tenant{cfg.Tenants[0]}
		if limit > 0 {
			list := []Budget{{Unit: UnitTokens, Limit: limit, Per: budget.Month}}
			c.Pools[0].Budgets = list
			c.Tenants[0].Budgets = list
		}
		return c
	}
	g := must(t, cfg)
	var group sync.WaitGroup
	var stop atomic.Bool
	var mu sync.Mutex
	took := int64(0)
	for range callers {
		group.Go(func() {
			for !stop.Load() {
				l, rej := Refused(g.Acquire(t.Context(), demand("a", 100)))
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
	stop.Store(true)
	group.Wait()
	if own, pool := spent(g, 0, 0).Used, g.State().Pools[0].Budgets[0].Used; own != took || pool != took {
		t.Errorf("of the tenant's %d are used and of the pool's %d, but calls took %d", own, pool, took)
	}
}

// committed asks for a commitment of so many tokens.
func committed(input, output int64) Request {
	return Request{Tenant: "a/b", Pool: "p", Input: input, Output: output, BudgetsOnly: true, Price: &Price{Input: 1e6, Output: 2e6}}
}

// Commitments hold all that they may take of the budgets of their tenant, its parent and the pool, of all
// or of none, and of nothing else.
func TestCommitments(t *testing.T) {
	tokens := Budget{Unit: UnitTokens, Limit: 1000, Per: budget.Day}
	money := Budget{Unit: UnitMicroUSD, Limit: 1000, Per: budget.Day}
	roomy := Budget{Unit: UnitTokens, Limit: 1_000_000, Per: budget.Day}
	for name, c := range map[string]struct {
		parent, team, pool []Budget
		fit                int
	}{
		"no budgets":                   {fit: 50},
		"its own":                      {team: []Budget{tokens}, parent: []Budget{roomy}, fit: 10},
		"its parent's":                 {parent: []Budget{tokens}, team: []Budget{roomy}, fit: 10},
		"its parent's, in $":           {parent: []Budget{roomy, money}, team: []Budget{tokens}, fit: 5},
		"its half of the pool's":       {pool: []Budget{tokens}, parent: []Budget{roomy}, fit: 5},
		"its half of the pool's, in $": {pool: []Budget{roomy, money}, fit: 2},
		"of requests, and so":          {parent: []Budget{{Unit: UnitRequests, Limit: 1, Per: budget.Day}}, fit: 50},
	} {
		t.Run(name, func(t *testing.T) {
			g := must(t, Config{
				Pools:   []Pool{{Name: "p", TPM: 10, RPM: 1, Concurrency: 1, Budgets: c.pool}},
				Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: c.parent}, {Name: "a/b", Weight: 1, TPM: 10, Budgets: c.team, Concurrency: 1}},
			})
			var leases []Lease
			for range 50 {
				lease, rej := Refused(g.Acquire(t.Context(), committed(0, 100)))
				if rej != nil {
					if rej.Budget.Limit != 1000 || rej.RetryAfter <= 0 {
						t.Fatalf("refused by %+v", rej)
					}
					continue
				}
				leases = append(leases, lease)
			}
			if len(leases) != c.fit {
				t.Fatalf("%d fit, want %d", len(leases), c.fit)
			}
			if running, _ := g.Leases(); running != 0 {
				t.Errorf("%d calls run", running)
			}
			for i, l := range leases {
				if !l.Charge(Usage{Output: 10}) || l.Charge(Usage{Output: 10}) || l.Release() {
					t.Errorf("commitment %d did not end once", i)
				}
			}
			st := g.State()
			for _, list := range [][]BudgetState{st.Tenants[0].Budgets, st.Tenants[1].Budgets, st.Pools[0].Budgets} {
				for _, b := range list {
					if b.Pool != "" { // a part of the pool's, of which the whole follows
						continue
					}
					want := map[Unit]int64{UnitTokens: 10, UnitMicroUSD: 20}[b.Unit] * int64(c.fit)
					if b.Used != want {
						t.Errorf("%s: %d are used, want %d", b.Budget.Name(), b.Used, want)
					}
				}
			}
		})
	}
}

// Unlike a call, a commitment that is larger than what is left is refused, whatever is in flight, and the
// message says why. Calls may have the rest.
func TestCommitmentsAreNoGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 1_000_000}},
			Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}}, {Name: "a/b", Weight: 1}},
		})
		untilReset := time.Until(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC))
		refused := func(output int64, reason Reason, after time.Duration, text string) {
			t.Helper()
			_, rej := Refused(g.Acquire(t.Context(), committed(0, output)))
			if rej == nil || rej.Reason != reason || rej.RetryAfter != after {
				t.Fatalf("%d tokens: %+v", output, rej)
			}
			if got := rej.Error(); got != text {
				t.Errorf("%d tokens: %s", output, got)
			}
		}
		refused(1001, ReasonTokens, untilReset, "This batch may take more than is left of the budget of tenant a (tokens per day: Limit 1000, Used 0, Requested 1001). "+
			"It resets at 2000-01-02T00:00:00Z. Please try again in 24h0m0s.")
		held := admitted(t, g, committed(0, 900))
		refused(101, ReasonTokens, time.Minute, "This batch may take more than is left of the budget of tenant a (tokens per day: Limit 1000, Used 900, Requested 101). "+
			"It resets at 2000-01-02T00:00:00Z. Please try again in 60.000s.")
		call := admitted(t, g, Request{Tenant: "a/b", Pool: "p", Output: 150}) // takes what is left
		call.Settle(Usage{Output: 100})
		held.Charge(Usage{Output: 900})
		refused(1, ReasonBudget, untilReset, "The budget of tenant a is spent (tokens per day: Limit 1000, Used 1000, Requested 1). "+
			"It resets at 2000-01-02T00:00:00Z (in 1d0h).")
	})
}

// A commitment counts in the period in which it was made, and later only with what it takes beyond its
// most; after a restart from the journal as well.
func TestCommitmentsOverMidnight(t *testing.T) {
	for took, want := range map[int64]int64{300: 0, 700: 200} {
		synctest.Test(t, func(t *testing.T) {
			journal := &memory{left: -1}
			cfg := Config{
				Pools: []Pool{{Name: "p", TPM: 1_000_000}}, Journal: journal,
				Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}, {Unit: UnitTokens, Limit: 10_000, Per: budget.Month}}}, {Name: "a/b", Weight: 1}},
			}
			g := must(t, cfg)
			lease := admitted(t, g, committed(0, 500))
			time.Sleep(25 * time.Hour)
			lease.Charge(Usage{Output: took})
			for _, how := range []string{"live", "restarted"} {
				a, _ := g.TenantState("a")
				if day, month := a.Budgets[0].Used, a.Budgets[1].Used; day != want || month != took {
					t.Errorf("%s: of %d tokens %d count today and %d this month, want %d and all", how, took, day, month, want)
				}
				cfg.Past = journal.past(time.UTC)
				g = must(t, cfg)
			}
		})
	}
}

// A journal counts nothing of a commitment that a crash cut off: whoever made it makes it anew.
func TestCommitmentsAfterACrash(t *testing.T) {
	journal := &memory{left: -1}
	cfg := Config{
		Pools: []Pool{{Name: "p", TPM: 1_000_000}}, Journal: journal,
		Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}}, {Name: "a/b", Weight: 1}},
	}
	for range 2 {
		g := must(t, cfg)
		admitted(t, g, committed(0, 1000))
		cfg.Past = journal.past(time.UTC)
	}
}

// What a postponed call held stays booked for its minute, and no longer. When it is charged, budgets
// take all of it, and limits by the minute what it took beyond what they have booked.
func TestPostpone(t *testing.T) {
	for how, accounting := range map[string]escrow.Accounting{"admit_max": escrow.AdmitMax, "production": escrow.Production, "settle": escrow.Settled} {
		for name, c := range map[string]struct{ took, beyond Usage }{
			"less": {took: Usage{Input: 100, Output: 20}},
			"all":  {took: Usage{Input: 100, Output: 400}},
			"more": {took: Usage{Input: 150, Output: 600}, beyond: Usage{Input: 50, Output: 200}},
		} {
			testkit.Virtual(t, how+"/"+name, func(t *testing.T) {
				perDay := []Budget{{Unit: UnitTokens, Limit: 10_000, Per: budget.Day}}
				g := must(t, Config{
					Pools:   []Pool{{Name: "p", TPM: 6000, Burst: time.Minute, MaxQueue: 10, Accounting: accounting}},
					Tenants: []Tenant{{Name: "a", Weight: 1, TPM: 5000, Budgets: perDay}},
				})
				time.Sleep(time.Minute)
				used := func() (tokens, spent int64) {
					a, _ := g.TenantState("a")
					return a.Limits[0].Used, a.Budgets[0].Used
				}
				lease := admitted(t, g, Request{Tenant: "a", Pool: "p", Input: 100, Output: 400})
				if !lease.Postpone() || lease.Postpone() {
					t.Error("it was not postponed once")
				}
				if running, _ := g.Leases(); running != 0 {
					t.Errorf("%d run", running)
				}
				if tokens, spent := used(); tokens != 500 || spent != 0 {
					t.Errorf("postponed, its limit counts %d and its budget %d, want 500 and 0", tokens, spent)
				}
				lease, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Input: c.took.Input, Output: c.took.Output, Forced: true, Booked: Booked{Input: 100, Output: 400}}))
				if rej != nil || !lease.Charge(c.took) {
					t.Fatal("it was not charged")
				}
				beyond := c.beyond.Input + c.beyond.Output
				if tokens, spent := used(); tokens != 500+beyond || spent != c.took.Input+c.took.Output {
					t.Errorf("charged, its limit counts %d and its budget %d, want %d and %d", tokens, spent, 500+beyond, c.took.Input+c.took.Output)
				}
				time.Sleep(time.Minute + time.Second)
				if tokens, spent := used(); tokens != 0 || spent != c.took.Input+c.took.Output {
					t.Errorf("a minute later, its limit counts %d and its budget %d", tokens, spent)
				}
			})
		}
	}
}

// A member's call that is the first to end in an hour is counted.
func TestTally_AMembersFirstEndOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, withMembers(Tenant{Budgets: []Budget{{Unit: UnitTokens, Limit: 1e6, Per: budget.Month}}}))
		l := admitted(t, g, demand("org/~m", 100))
		time.Sleep(time.Hour)
		l.Settle(Usage{Output: 100})
		if got, _ := g.tally.uses.OfTenant(time.Now(), "org/~m", Budget{Unit: UnitTokens, Per: budget.Day}); got != 100 {
			t.Errorf("%d tokens count, want 100", got)
		}
	})
}
