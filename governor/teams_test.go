package governor

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// A team's share is carved out of what its tenant has, and the tenant's own calls
// are one more share of weight 1. What a team leaves, its siblings get first.
func TestTeams_ShareWhatTheirTenantHas(t *testing.T) {
	cfg := Config{
		Pools: []Pool{{Name: "p", TPM: 600_000, MaxQueue: 1000, Burst: 10 * time.Second}},
		Tenants: []Tenant{
			{Name: "solo", Weight: 1, MaxWait: time.Hour},
			{Name: "org", Weight: 2, MaxWait: time.Hour},
			{Name: "org/x", Weight: 3, MaxWait: time.Hour},
			{Name: "org/y", Weight: 2, MaxWait: time.Hour, NoCalls: true},
			{Name: "org/y/1", Weight: 1, MaxWait: time.Hour},
			{Name: "org/y/2", Weight: 4, MaxWait: time.Hour},
			{Name: "org/idle", Weight: 9},
		},
	}
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"solo": 8, "org": 8, "org/x": 8, "org/y/1": 8, "org/y/2": 8}), map[string]float64{
			"solo": 1. / 3, "org": 2. / 3 * 1 / 6, "org/x": 2. / 3 * 3 / 6, "org/y/1": 2. / 3 * 2 / 6 / 5, "org/y/2": 2. / 3 * 2 / 6 * 4 / 5,
		})
	})
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"solo": 8, "org/y/1": 8}), map[string]float64{"solo": 1. / 3, "org/y/1": 2. / 3})
	})
}

// Where it is the tenant's own limit that is short, and not the pool, its teams
// share that by their weights too, whoever has more calls waiting.
func TestTeams_ShareTheirTenantsLimit(t *testing.T) {
	cfg := Config{
		Pools: []Pool{{Name: "p", TPM: 600_000, MaxQueue: 1000, Burst: 10 * time.Second}},
		Tenants: []Tenant{
			{Name: "org", Weight: 1, TPM: 60_000, MaxWait: time.Hour},
			{Name: "org/x", Weight: 3, MaxWait: time.Hour},
			{Name: "org/y", Weight: 1, MaxWait: time.Hour},
		},
	}
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"org/x": 30, "org/y": 60}), map[string]float64{"org/x": 0.075, "org/y": 0.025})
	})
	cfg.Tenants[0].TPM = 0
	cfg.Tenants[0].RPM = 60
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"org": 60, "org/x": 8, "org/y": 4}), map[string]float64{"org": 0.02, "org/x": 0.06, "org/y": 0.02})
	})
}

// Every limit and budget above a team holds for it too, and says whose it is; and a
// refusal by one of them leaves nothing behind in the others.
func TestTeams_AllThatIsAboveHolds(t *testing.T) {
	day := func(tokens int64) []Budget { return []Budget{{Unit: UnitTokens, Limit: tokens, Per: budget.Day}} }
	for name, c := range map[string]struct {
		edit   func(cfg *Config)
		reason Reason
		whose  string
	}{
		"the tenant's rpm":          {func(c *Config) { c.Tenants[0].RPM = 2 }, ReasonRequests, "tenant org on requests"},
		"its tpm":                   {func(c *Config) { c.Tenants[0].TPM = 250 }, ReasonTokens, "tenant org on tokens"},
		"its concurrency":           {func(c *Config) { c.Tenants[0].Concurrency = 2 }, ReasonConcurrency, "tenant org on concurrent calls"},
		"its tpm in the pool":       {func(c *Config) { c.Tenants[0].InPool = map[string]Limits{"p": {TPM: 250}} }, ReasonTokens, "tenant org in pool p on tokens"},
		"its rpm in another pool":   {func(c *Config) { c.Tenants[0].InPool = map[string]Limits{"q": {RPM: 2}} }, ReasonNone, ""},
		"its budget":                {func(c *Config) { c.Tenants[0].Budgets = day(200) }, ReasonBudget, "budget of tenant org is spent"},
		"the team's own":            {func(c *Config) { c.Tenants[1].RPM = 2 }, ReasonRequests, "tenant org/x on requests"},
		"the team's own in between": {func(c *Config) { c.Tenants[1].Budgets, c.Tenants[0].Budgets = day(200), day(10_000) }, ReasonBudget, "budget of tenant org/x is spent"},
		"the pool":                  {func(c *Config) { c.Pools[0].RPM = 2 }, ReasonRequests, "pool p on requests"},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			cfg := Config{
				Pools:   []Pool{{Name: "p", TPM: 60_000, RPM: 6000, MaxQueue: 10}, {Name: "q", TPM: 60_000, MaxQueue: 10}},
				Tenants: []Tenant{{Name: "org", Weight: 1, NoCalls: true}, {Name: "org/x", Weight: 1, NoCalls: true}, {Name: "org/x/1", Weight: 1}, {Name: "org/x/2", Weight: 1}},
			}
			c.edit(&cfg)
			g := must(t, cfg)
			time.Sleep(time.Minute)
			var rej *Refusal
			var leases []Lease
			for _, who := range []string{"org/x/1", "org/x/2", "org/x/1"} {
				var l Lease
				l, rej = Refused(g.Acquire(t.Context(), demand(who, 100)))
				if rej == nil {
					leases = append(leases, l)
				}
				if c.reason == ReasonBudget {
					l.Settle(Usage{Output: 100})
				}
			}
			switch {
			case c.reason == ReasonNone && rej == nil:
			case rej == nil || rej.Reason != c.reason || !strings.Contains(rej.Error(), c.whose):
				t.Fatalf("the third call got %v (%v), want %v of %s", rej, len(leases), c.reason, c.whose)
			}
			for _, l := range leases {
				l.Settle(Usage{Output: 100})
			}
			for _, ts := range g.State().Tenants {
				calls := map[string]int64{"org": 2, "org/x": 2, "org/x/1": 1, "org/x/2": 1}[ts.Config.Name]
				if c.reason == ReasonNone {
					continue
				}
				for _, l := range ts.Limits {
					if want := map[string]int64{refusal.AxisRequests: calls, refusal.AxisTokens: 100 * calls}[l.Axis]; l.Used != want {
						t.Errorf("%s counts %d %s, want %d", ts.Config.Name, l.Used, l.Axis, want)
					}
				}
				for _, b := range ts.Budgets {
					if b.Used != 100*calls {
						t.Errorf("%s has used %d of its budget, want %d", ts.Config.Name, b.Used, 100*calls)
					}
				}
				if ts.Running != 0 {
					t.Errorf("%s has %d running", ts.Config.Name, ts.Running)
				}
			}
		})
	}
}

// A call that waits for its tenant's limit holds what it has of its team's, and its
// minute begins in both when it goes.
func TestTeams_WaitAboveHoldsBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "org", Weight: 1, Concurrency: 1}, {Name: "org/x", Weight: 1, RPM: 2, MaxWait: time.Hour}},
		})
		first, _ := g.Acquire(t.Context(), demand("org", 1))
		var wg sync.WaitGroup
		var second Lease
		wg.Go(func() { second, _ = g.Acquire(t.Context(), demand("org/x", 1)) })
		time.Sleep(90 * time.Second)
		team := func() int64 { return g.State().Tenants[1].Limits[0].Used }
		if used := team(); used != 1 {
			t.Errorf("while it waits its team counts %d requests, want the one that it holds", used)
		}
		first.Settle(Usage{})
		wg.Wait()
		if second.Waited != 90*time.Second {
			t.Errorf("it waited %v", second.Waited)
		}
		second.Settle(Usage{})
		time.Sleep(59 * time.Second)
		if used := team(); used != 1 {
			t.Errorf("59 s after it went its team counts %d", used)
		}
		time.Sleep(2 * time.Second)
		if used := team(); used != 0 {
			t.Errorf("61 s after it went its team counts %d", used)
		}
	})
}

// Who becomes a tenant with teams, or is one no more, loses no call, and shares are
// what they should be from then on.
func TestTeams_ComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func(names ...string) Config {
			cfg := Config{Pools: []Pool{{Name: "p", TPM: 600_000, MaxQueue: 1000, Burst: 10 * time.Second}}}
			for _, name := range names {
				cfg.Tenants = append(cfg.Tenants, Tenant{Name: name, Weight: 1, MaxWait: time.Hour})
			}
			return cfg
		}
		flat := with("a", "b")
		deep := with("a", "b", "b/x", "b/y")
		g := must(t, flat)
		var got [4]atomic.Int64
		var lost atomic.Int64
		ctx := t.Context()
		var stop atomic.Bool
		var wg sync.WaitGroup
		for i, who := range []string{"a", "b", "b/x", "b/y"} {
			for range 8 {
				wg.Go(func() {
					for !stop.Load() {
						l, rej := Refused(g.Acquire(ctx, demand(who, 1000)))
						if rej != nil {
							if rej.Reason != ReasonUnknown || i < 2 {
								lost.Add(1)
							}
							time.Sleep(time.Second)
							continue
						}
						time.Sleep(100 * time.Millisecond)
						if !l.Settle(Usage{Output: 1000}) {
							lost.Add(1)
						}
						got[i].Add(1000)
					}
				})
			}
		}
		for round, cfg := range []Config{flat, deep, flat, deep} {
			apply(t, g, cfg)
			time.Sleep(90 * time.Second)
			for i := range got {
				got[i].Store(0)
			}
			time.Sleep(2 * time.Minute)
			want := []float64{0.5, 0.5, 0, 0}
			if round%2 == 1 {
				want = []float64{0.5, 1. / 6, 1. / 6, 1. / 6}
			}
			for i := range got {
				part := float64(got[i].Load()) / 1_200_000
				if part < 0.95*want[i]-0.01 || part > 1.05*want[i]+0.01 {
					t.Errorf("round %d: %d received %.3f, want %.3f", round, i, part, want[i])
				}
			}
		}
		stop.Store(true)
		wg.Wait()
		if n := lost.Load(); n != 0 {
			t.Errorf("%d calls were refused or lost", n)
		}
		healthy(t, g)
	})
}

// What is forced is booked whatever the limits say, as tokens and as no request.
func TestForcedIsBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, Concurrency: 1, MaxQueue: 10, Burst: time.Minute}},
			Tenants: []Tenant{{Name: "a", Weight: 1, TPM: 1000, RPM: 1, Concurrency: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: 400, Per: budget.Day}}}},
		})
		time.Sleep(5 * time.Minute)
		running := admitted(t, g, demand("a", 0))
		for range 3 {
			r := demand("a", 700)
			r.Forced = true
			l, rej := Refused(g.Acquire(t.Context(), r))
			if rej != nil || !l.Charge(Usage{Output: 700}) {
				t.Fatal(rej)
			}
		}
		if st := g.Standing("a", "p"); st.Tokens.Remaining != 0 {
			t.Errorf("%d tokens are left", st.Tokens.Remaining)
		}
		st, _ := g.TenantState("a")
		for _, l := range st.Limits {
			if want := map[string]int64{"tokens": 2100, "requests": 1, "concurrency": 1}[l.Axis]; l.Used != want {
				t.Errorf("%d %s are used, want %d", l.Used, l.Axis, want)
			}
		}
		running.Settle(Usage{})
		if st, _ := g.TenantState("a"); st.Budgets[0].Used != 2100 {
			t.Errorf("%d of the budget is used", st.Budgets[0].Used)
		}
		if running, waiting := g.Leases(); running != 0 || waiting != 0 {
			t.Errorf("%d run and %d wait", running, waiting)
		}
	})
}

// What is forced is of the tenant's share: who takes a part of it so gets so much less
// of the rest.
func TestForcedIsOfTheShare(t *testing.T) {
	cfg := Config{
		Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 100, Burst: 10 * time.Second}},
		Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}, {Name: "b", Weight: 1, MaxWait: time.Hour}},
	}
	synctest.Test(t, func(t *testing.T) {
		g := must(t, cfg)
		ends := time.Now().Add(10 * time.Minute)
		var got [2]atomic.Int64
		var wg sync.WaitGroup
		for i, who := range []string{"a", "b"} {
			for range 4 {
				wg.Go(func() {
					for time.Now().Before(ends) {
						if l, rej := g.Acquire(t.Context(), demand(who, 500)); rej == nil {
							l.Settle(Usage{Output: 500})
							got[i].Add(500)
						}
					}
				})
			}
		}
		for time.Now().Before(ends) {
			r := demand("a", 300)
			r.Forced = true
			l, _ := g.Acquire(t.Context(), r)
			l.Charge(Usage{Output: 300})
			got[0].Add(300)
			time.Sleep(time.Second)
		}
		wg.Wait()
		if a, b := got[0].Load(), got[1].Load(); a < b*95/100 || a > b*105/100 {
			t.Errorf("with what it took unasked a had %d, b %d", a, b)
		}
		healthy(t, g)
	})
}

// A shadow's calls go whatever the limits say. They are counted for all to see, and
// say whether they would have been refused, and others are held to what is left.
func TestShadow(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(cfg *Config)
		reason Reason
	}{
		"own rpm":           {func(c *Config) { c.Tenants[0].RPM = 1 }, ReasonRequests},
		"own tpm":           {func(c *Config) { c.Tenants[0].TPM = 600 }, ReasonTokens},
		"own concurrency":   {func(c *Config) { c.Tenants[0].Concurrency = 1 }, ReasonConcurrency},
		"budget":            {func(c *Config) { c.Tenants[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 400, Per: budget.Day}} }, ReasonTokens},
		"pool":              {func(c *Config) { c.Pools[0].TPM = 700 }, ReasonTokens},
		"the pool's slots":  {func(c *Config) { c.Pools[0].Concurrency = 1 }, ReasonConcurrency},
		"the pool's budget": {func(c *Config) { c.Pools[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 700, Per: budget.Day}} }, ReasonTokens},
		"a tenant's above": {func(c *Config) {
			c.Tenants[1].RPM = 1
			c.Tenants[0].Name = "b/a"
		}, ReasonRequests},
		"it would wait": {func(c *Config) {
			c.Tenants[0].RPM = 1
			c.Tenants[0].MaxWait = time.Hour
		}, ReasonNone},
		"it would wait for the pool": {func(c *Config) {
			c.Pools[0].Concurrency = 1
			c.Tenants[0].MaxWait = time.Hour
			c.Pools[0].Accounting = escrow.Production
		}, ReasonNone},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			cfg := Config{
				Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10, Burst: time.Minute}},
				Tenants: []Tenant{{Name: "a", Weight: 1, Shadow: true}, {Name: "b", Weight: 1}},
			}
			c.edit(&cfg)
			g := must(t, cfg)
			time.Sleep(5 * time.Minute)
			var leases []Lease
			for range 2 {
				l, rej := Refused(g.Acquire(t.Context(), demand(cfg.Tenants[0].Name, 400)))
				if rej != nil || l.Waited != 0 {
					t.Fatalf("a shadow waited %v, or was refused: %v", l.Waited, rej)
				}
				leases = append(leases, l)
			}
			got := ReasonNone
			if would := leases[1].Would; would != nil {
				got = would.Reason
			}
			if got != c.reason || leases[0].Would != nil {
				t.Errorf("the calls would have been refused for %v, %v; want none, %v", leases[0].Would, leases[1].Would, c.reason)
			}
			if running, _ := g.Leases(); running != 2 {
				t.Errorf("%d are seen to run", running)
			}
			if c.reason == ReasonConcurrency && cfg.Pools[0].Concurrency > 0 {
				if _, rej := g.Acquire(t.Context(), demand("b", 1)); rej == nil {
					t.Error("a shadow's slot counts for nobody else")
				}
			}
			for _, l := range leases {
				l.Settle(Usage{Output: 300})
			}
			s := g.State()
			if used := s.Pools[0].Axes[0].Used; used != 600 {
				t.Errorf("the pool counts %d, want 600", used)
			}
			for _, b := range append(s.Tenants[0].Budgets, s.Pools[0].Budgets...) {
				if b.Used != 600 {
					t.Errorf("a budget counts %d, want 600", b.Used)
				}
			}
			healthy(t, g)
		})
	}
}

// Whoever is there for its teams only shows its limits in single pools too, with what
// the teams use.
func TestState_LimitsInAPoolOfWhoDoesNotCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "org", Weight: 1, RPM: 9, InPool: map[string]Limits{"p": {Concurrency: 3}}, NoCalls: true},
				{Name: "org/x", Weight: 1},
			},
		})
		l := admitted(t, g, demand("org/x", 10))
		want := []LimitState{{"requests", "", 9, 1}, {"concurrency", "p", 3, 1}}
		if st, ok := g.TenantState("org"); !ok || !slices.Equal(st.Limits, want) || !slices.Equal(g.State().Tenants[0].Limits, want) {
			t.Errorf("its limits are %+v, want %+v", st.Limits, want)
		}
		l.Release()
		healthy(t, g)
	})
}

// A shadow keeps no places, which it would not come back to: others keep theirs.
func TestShadow_KeepsNoPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", RPM: 60, MaxQueue: 5, TicketWait: 10 * time.Second}},
			Tenants: []Tenant{{Name: "a", Weight: 1, Shadow: true}, {Name: "b", Weight: 1}},
		})
		for range 10 {
			l := admitted(t, g, demand("a", 1))
			l.Settle(Usage{})
		}
		if _, rej := Refused(g.Acquire(t.Context(), demand("b", 1))); rej == nil || !rej.Kept {
			t.Errorf("behind a shadow's calls b got %v, want that its place is kept", rej)
		}
		if n := g.State().Pools[0].Tickets; n != 1 {
			t.Errorf("%d places are kept, want that of b alone", n)
		}
	})
}

// What a shadow took out of turn is nobody's debt: not its group's while it is one,
// and not its own when it is one no more.
func TestShadow_OwesNoTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Pools: []Pool{{Name: "p", RPM: 600, MaxQueue: 100}},
			Tenants: []Tenant{
				{Name: "a", Weight: 1, MaxWait: time.Hour, Shadow: true, Group: "g", GroupWeight: 1},
				{Name: "sibling", Weight: 1, MaxWait: time.Hour, Group: "g", GroupWeight: 1},
				{Name: "other", Weight: 1, MaxWait: time.Hour},
			},
		}
		g := must(t, cfg)
		ends := time.Now().Add(11 * time.Minute)
		got := map[string]*atomic.Int64{"sibling": {}, "other": {}}
		var wg sync.WaitGroup
		for who, n := range got {
			for range 4 {
				wg.Go(func() {
					for time.Now().Before(ends) {
						l, rej := Refused(g.Acquire(t.Context(), demand(who, 1)))
						if rej != nil {
							t.Error(rej)
						}
						l.Settle(Usage{Output: 1})
						n.Add(1)
					}
				})
			}
		}
		for range 10 * 60 * 7 { // of the ten a second that may go
			l, _ := g.Acquire(t.Context(), demand("a", 1))
			l.Settle(Usage{Output: 1})
			time.Sleep(time.Second / 7)
		}
		if s, o := got["sibling"].Load(), got["other"].Load(); s < o/2 {
			t.Errorf("the shadow's sibling got %d, another tenant %d", s, o)
		}
		cfg.Tenants = append([]Tenant{}, cfg.Tenants...)
		cfg.Tenants[0].Shadow = false
		apply(t, g, cfg)
		l, rej := Refused(g.Acquire(t.Context(), demand("a", 1)))
		if rej != nil || l.Waited > 5*time.Second {
			t.Errorf("its first call as a shadow no more waited %v (%v)", l.Waited, rej)
		}
		l.Settle(Usage{Output: 1})
		wg.Wait()
		healthy(t, g)
	})
}

// twoTeams is a tenant that may run one call at a time, with two teams.
func twoTeams(bound int, wait time.Duration) Config {
	return Config{
		Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: bound}},
		Tenants: []Tenant{
			{Name: "org", Weight: 1, Concurrency: 1},
			{Name: "org/x", Weight: 1, MaxWait: time.Hour},
			{Name: "org/y", Weight: 1, MaxWait: wait},
		},
	}
}

// A team whose calls go away before their turn, because they may not wait for so long,
// has its share all the same.
func TestTeams_PayForNoCallThatDoesNotGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoTeams(1000, 3500*time.Millisecond))
		served := map[string]*atomic.Int64{"org/x": {}, "org/y": {}}
		ends := time.Now().Add(10 * time.Minute)
		var wg sync.WaitGroup
		for who, n := range served {
			for range 8 {
				wg.Go(func() {
					for time.Now().Before(ends) {
						l, rej := g.Acquire(t.Context(), demand(who, 1))
						if rej != nil {
							time.Sleep(time.Millisecond)
							continue
						}
						time.Sleep(time.Second)
						l.Settle(Usage{Output: 1})
						n.Add(1)
					}
				})
			}
		}
		wg.Wait()
		if x, y := served["org/x"].Load(), served["org/y"].Load(); y < 280 || x < 280 {
			t.Errorf("the team that waits got %d seconds, the one that gives up %d; want 300 each", x, y)
		}
	})
}

// One team cannot fill its tenant's line, so that another finds it full.
func TestTeams_NoneFillsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoTeams(10, time.Hour))
		first, _ := g.Acquire(t.Context(), demand("org", 1))
		var wg sync.WaitGroup
		var refused atomic.Int64
		for range 20 {
			wg.Go(func() {
				l, rej := Refused(g.Acquire(t.Context(), demand("org/x", 1)))
				if rej != nil {
					refused.Add(1)
					if rej.Reason != ReasonQueueFull || rej.Tenant != "org/x" || rej.Used != 5 {
						t.Error(rej)
					}
				}
				l.Settle(Usage{})
			})
		}
		synctest.Wait()
		wg.Go(func() {
			l, rej := Refused(g.Acquire(t.Context(), demand("org/y", 1)))
			if rej != nil {
				t.Errorf("a team that had nobody in line was refused: %v", rej)
			}
			l.Settle(Usage{})
		})
		synctest.Wait()
		first.Settle(Usage{})
		wg.Wait()
		if n := refused.Load(); n != 15 {
			t.Errorf("%d of 20 calls were refused, want 15: half of the line is for others", n)
		}
	})
}
