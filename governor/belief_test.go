package governor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// tellers has a pool with budgets in all units, and a tenant org with a team that tells of its calls. All prices are a dollar a million tokens.
func tellers(accounting escrow.Accounting) Config {
	monthly := func(unit Unit, limit int64) Budget { return Budget{Unit: unit, Limit: limit, Per: budget.Month} }
	return Config{
		Pools: []Pool{{
			Name: "p", TPM: 6_000_000, MaxQueue: 100, Burst: time.Minute, Accounting: accounting,
			Budgets: []Budget{monthly(UnitTokens, 1e9), monthly(UnitMicroUSD, 1e9)},
		}},
		Tenants: []Tenant{
			{Name: "org", Weight: 1, TPM: 900_000, Budgets: []Budget{monthly(UnitTokens, 1e8)}},
			{Name: "org/teller", Weight: 1, TPM: 60_000, Budgets: []Budget{monthly(UnitTokens, 1e7), monthly(UnitMicroUSD, 20_000)}},
			{Name: "org/sibling", Weight: 1},
			{Name: "solo", Weight: 1},
		},
		Zone: time.UTC,
	}
}

// tell asks for a call of the teller's.
func tell(input, output int64) Request {
	return Request{Tenant: "org/teller", Pool: "p", Model: "m", Input: input, Output: output, Told: true, Price: &Price{Input: 1e6, CachedInput: 1e6, Output: 1e6}}
}

// books are what the pool, the tenant above the teller and the teller itself count.
type books struct {
	pool, poolTokens, poolUSD int64
	org, orgTokens            int64
	own, ownTokens, ownUSD    int64
}

func booksOf(g *Governor) books {
	s := g.State()
	p := s.Pools[0]
	org := s.Tenants[0]
	own := s.Tenants[1]
	return books{
		p.Axes[escrow.Tokens].Used, p.Budgets[0].Used, p.Budgets[1].Used,
		org.Limits[0].Used, org.Budgets[0].Used,
		own.Limits[0].Used, own.Budgets[0].Used, own.Budgets[1].Used,
	}
}

const absurd = int64(1e9)

// others are the books that the teller shares.
func (b books) others() map[string]int64 {
	return map[string]int64{
		"pool": b.pool, "pool's tokens": b.poolTokens, "pool's money": b.poolUSD, "tenant above": b.org, "tokens of the tenant above": b.orgTokens,
	}
}

// TestTold_TakesNothingFromOthers: whatever a tenant tells of its call, and whenever, the pool, its budgets and the tenant above count no more than
// was held of the teller's own limits and budgets, and the teller's own count all of it: at once, after a restart, and in budgets that come later.
func TestTold_TakesNothingFromOthers(t *testing.T) {
	for name, c := range map[string]struct {
		ask       Request
		live      func(g *Governor, l Lease)
		most, own int64 // of the books of others, and of its own
	}{
		"a usage":        {tell(1, 1), func(_ *Governor, l Lease) { l.Settle(Usage{Input: absurd, Output: absurd}) }, 2, 2 * absurd},
		"one broken off": {tell(1, 1), func(_ *Governor, l Lease) { l.Break(Usage{Input: absurd}) }, 2, absurd},
		"other parts": {tell(1, 1), func(_ *Governor, l Lease) {
			l.Settle(Usage{Input: absurd, CachedInput: absurd, Output: absurd, Reasoning: absurd, AudioOutput: absurd})
		}, 2, 2 * absurd},
		"a price": {tell(1, 1), func(_ *Governor, l Lease) { l.Costing(1e15).Settle(Usage{Input: 1, Output: 1}) }, 2, 2},
		"progress": {tell(1, 1), func(_ *Governor, l Lease) {
			l.Progress(absurd)
			l.Progress(2 * absurd)
			l.Break(Usage{Input: 1, Output: 2 * absurd})
		}, 2, 2*absurd + 1},
		"progress, and nothing at the end": {tell(1, 1), func(_ *Governor, l Lease) {
			l.Progress(absurd)
			l.Settle(Usage{})
		}, 2, 0},
		"what it asks for": {tell(1, absurd), func(_ *Governor, l Lease) { l.Settle(Usage{Input: 1, Output: absurd}) }, 60_000, absurd + 1},
		"a prompt that it asks for": {tell(absurd, 1), func(_ *Governor, l Lease) {
			l.Progress(absurd)
			l.Settle(Usage{Input: absurd})
		}, 60_000, absurd},
		"what it tells too late": {tell(1, 50_000), func(g *Governor, l Lease) {
			l.Release()
			late := tell(0, 0)
			late.Forced = true
			again, _ := g.Acquire(t.Context(), late)
			again.Charge(Usage{Input: absurd, Output: absurd})
		}, 0, 2 * absurd},
		"less than it holds": {tell(100, 100), func(_ *Governor, l Lease) { l.Settle(Usage{Input: 90, Output: 5}) }, 95, 95},
	} {
		for _, accounting := range []escrow.Accounting{escrow.AdmitMax, escrow.Production, escrow.Settled} {
			testkit.Virtual(t, name, func(t *testing.T) {
				cfg := tellers(accounting)
				journal := &memory{left: 1 << 30}
				cfg.Journal = journal
				g := must(t, cfg)
				l := admitted(t, g, c.ask)
				held := min(60_000, c.ask.Input+c.ask.Output)
				for what, n := range booksOf(g).others() {
					if n > held {
						t.Errorf("%s: %d are held, at most %d are right", what, n, held)
					}
				}
				c.live(g, l)
				cfg.Past = journal.past(time.UTC)
				later := cfg
				later.Past = nil
				later.Journal = nil
				later.Pools = slices.Clone(cfg.Pools)
				later.Pools[0].Budgets = nil
				later.Tenants = slices.Clone(cfg.Tenants)
				for i := range later.Tenants {
					later.Tenants[i].Budgets = nil
				}
				reloaded := must(t, later)
				l, _ = reloaded.Acquire(t.Context(), c.ask)
				c.live(reloaded, l)
				testkit.OK(t, reloaded.Apply(tellers(accounting)))
				for when, g := range map[string]*Governor{"": g, "after a restart, ": must(t, cfg), "with new budgets, ": reloaded} {
					got := booksOf(g)
					for what, n := range got.others() {
						if n > c.most {
							t.Errorf("%s%s: %d, at most %d are right", when, what, n, c.most)
						}
					}
					if got.own != c.own || got.ownTokens != c.own {
						t.Errorf("%sof its own %d and %d, %d are right", when, got.own, got.ownTokens, c.own)
					}
				}
			})
		}
	}
}

// TestTold_Progress: while a call runs, others' books count no more than it holds, however much its tenant says that it has produced; nor do they
// after a crash.
func TestTold_Progress(t *testing.T) {
	for _, accounting := range []escrow.Accounting{escrow.AdmitMax, escrow.Production, escrow.Settled} {
		synctest.Test(t, func(t *testing.T) {
			cfg := tellers(accounting)
			journal := &memory{left: 1 << 30}
			cfg.Journal = journal
			g := must(t, cfg)
			l := admitted(t, g, tell(5, 5))
			for range 3 {
				l.Progress(absurd)
				time.Sleep(time.Second)
			}
			cfg.Past = journal.past(time.UTC)
			cfg.Past.Cut()
			for when, g := range map[string]*Governor{"": g, "after a crash, ": must(t, cfg)} {
				for what, n := range booksOf(g).others() {
					if n > 10 {
						t.Errorf("%saccounting %d, %s: %d, at most 10 are right", when, accounting, what, n)
					}
				}
			}
			l.Release()
		})
	}
}

// TestTold_WithoutLimits: a tenant without limits, which may have all of a pool, is believed as much as a minute of the pool or of its largest
// upstream, whatever it asks for, and as much as is left of its budgets.
func TestTold_WithoutLimits(t *testing.T) {
	const minute = 6_000_000
	budget := func(unit Unit, limit int64) func(*Pool, *Tenant) {
		return func(_ *Pool, solo *Tenant) { solo.Budgets = []Budget{{Unit: unit, Limit: limit, Per: budget.Month}} }
	}
	for name, c := range map[string]struct {
		change      func(*Pool, *Tenant)
		tokens, usd int64
	}{
		"of a pool": {func(*Pool, *Tenant) {}, minute, minute},
		"of its upstreams": {func(p *Pool, _ *Tenant) {
			p.TPM = 0
			p.Upstreams = []Upstream{{Name: "u", TPM: 1000}, {Name: "v", TPM: 5000}}
		}, 5000, 5000},
		"of both":                              {func(p *Pool, _ *Tenant) { p.Upstreams = []Upstream{{Name: "u", TPM: 1000}, {Name: "v", TPM: 5000}} }, 5000, 5000},
		"of a pool, whose upstreams have none": {func(p *Pool, _ *Tenant) { p.Upstreams = []Upstream{{Name: "u", TPM: 1000}, {Name: "v"}} }, minute, minute},
		"with a budget of tokens":              {budget(UnitTokens, 7000), 7000, minute},
		"with a budget of money":               {budget(UnitMicroUSD, 7000), minute, 7000},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			cfg := tellers(escrow.AdmitMax)
			solo := &cfg.Tenants[3]
			solo.MaxWait = time.Hour
			c.change(&cfg.Pools[0], solo)
			g := must(t, cfg)
			ask := tell(1, absurd)
			ask.Tenant = "solo"
			l := admitted(t, g, ask)
			l.Settle(Usage{Output: absurd})
			if got := booksOf(g); got.pool > c.tokens || got.poolTokens != c.tokens || got.poolUSD != c.usd {
				t.Errorf("the pool counts %d, its budgets %d and %d; %d and %d are right", got.pool, got.poolTokens, got.poolUSD, c.tokens, c.usd)
			}
		})
	}
}

// TestTold_Shadow: the limits of a tenant in shadow hold nothing back, so what it takes counts in its pool whatever they are.
func TestTold_Shadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := tellers(escrow.AdmitMax)
		cfg.Tenants[1].Shadow = true
		g := must(t, cfg)
		for range 3 {
			l := admitted(t, g, tell(50_000, 50_000))
			l.Settle(Usage{Input: 50_000, Output: 50_000})
		}
		if got := booksOf(g).pool; got != 300_000 {
			t.Errorf("three calls of 100,000 tokens count %d in the pool", got)
		}
	})
}

// TestTold_ByAxis: whoever tells of its own calls takes of a limit on output no more than the output that it asked for.
func TestTold_ByAxis(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		cfg := tellers(escrow.AdmitMax)
		cfg.Pools[0].TPM = 0
		cfg.Pools[0].ITPM = 2_000_000
		cfg.Pools[0].OTPM = 50_000
		g := must(t, cfg)
		admitted(t, g, tell(30_000, 1)).Settle(Usage{Input: 1, Output: absurd})
		if used := g.State().Pools[0].Axes[escrow.Output].Used; used > 1 {
			t.Errorf("%d output tokens of the pool are used, 1 was asked for", used)
		}
	})
}
