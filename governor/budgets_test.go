package governor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// The tests below were seen to fail with: a price's remainder dropped; cached input
// counted twice; holds not given back when the pool refuses at once, or after a wait,
// or when another budget does; what is held of a period that is over still subtracted;
// actuals not settled; shares by weight regardless of the group; days of a fixed
// length; calls in flight taken for a spent budget; no cut of what is expected to the
// limit; amounts rounded down where limits are scaled.

// wide is a pool that never stands in a budget's way.
func wide(name string, budgets ...Budget) Pool {
	return Pool{Name: name, Concurrency: 1000, MaxQueue: 100, Budgets: budgets}
}

func spent(g *Governor, tenant, k int) BudgetState { return g.State().Tenants[tenant].Budgets[k] }

// A budget counts what calls take, and refuses when that is spent, until it resets.
// As long as only calls in flight stand in the way, it says to come back soon.
func TestBudget_OfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{wide("p"), wide("q")},
			Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: 10_000, Per: budget.Hour}, {Unit: UnitRequests, Limit: 5, Per: budget.Day}}}},
		})
		start := time.Now() // midnight, UTC
		time.Sleep(10 * time.Minute)
		first := admitted(t, g, demand("a", 6000))
		_, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "q", Output: 5000}))
		if rej == nil || rej.Reason != ReasonTokens || rej.RetryAfter > time.Second || rej.Used != 6000 || rej.Limit != 10_000 {
			t.Fatalf("while 6000 of 10000 are held, 5000 more got %+v", rej)
		}
		if b := spent(g, 0, 0); b.Used != 6000 || b.Held != 6000 {
			t.Errorf("while 6000 are held, the budget says %+v", b)
		}
		first.Settle(Usage{Output: 7000})
		if b := spent(g, 0, 0); b.Used != 7000 || b.Held != 0 || !b.Resets.Equal(start.Add(time.Hour)) {
			t.Fatalf("7000 were taken, the budget says %+v", b)
		}
		// Nothing is in flight: what is left is for one that may take more.
		second, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "q", Output: 3001}))
		if rej != nil {
			t.Fatalf("the last 3000 got %v", rej)
		}
		_, rej = Refused(g.Acquire(t.Context(), demand("a", 1)))
		if rej == nil || rej.Reason != ReasonTokens {
			t.Fatalf("while the last 3000 are held, one more got %+v", rej)
		}
		time.Sleep(50 * time.Minute)
		// What was held before the hour stays there; what goes beyond it counts now.
		second.Settle(Usage{Output: 3100})
		if b := spent(g, 0, 0); b.Used != 100 || b.Held != 0 {
			t.Errorf("in the new hour the budget says %+v", b)
		}
		for range 3 {
			l := admitted(t, g, demand("a", 10))
			l.Settle(Usage{Output: 10})
		}
		_, rej = Refused(g.Acquire(t.Context(), demand("a", 10)))
		if rej == nil || rej.Reason != ReasonBudget || rej.Budget.Unit != UnitRequests || rej.RetryAfter != 23*time.Hour {
			t.Errorf("the sixth call of a day of five got %+v", rej)
		}
		want := "The budget of tenant a is spent (requests per day: Limit 5, Used 5, Requested 1). It resets at 2000-01-02T00:00:00Z (in 23h0m)."
		if rej.Error() != want {
			t.Errorf("got  %s\nwant %s", rej.Error(), want)
		}
		// A call that never left is in no budget.
		time.Sleep(23 * time.Hour)
		l, _ := g.Acquire(t.Context(), demand("a", 10))
		l.Release()
		if b := spent(g, 0, 1); b.Used != 0 {
			t.Errorf("after a release the budget says %+v", b)
		}
	})
}

// While calls in flight hold the rest of a budget, a refusal names the budget, and promises their
// end if they are expected to give enough back, and else the end of the period.
func TestBudget_HeldRestPromisesWhatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held, day = 100, 10_000
		for name, took := range map[string]int64{"nothing comes back": held, "half comes back": held / 2} {
			g := must(t, Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: day, Per: budget.Day}}}}})
			hold := func() (Lease, *Refusal) { return Refused(g.Acquire(t.Context(), demand("a", held))) }
			end := func(l Lease) { l.Settle(Usage{Output: took}) }
			for range 15 { // fewer than it takes to learn lengths, so each is held at what it declares
				l, _ := hold()
				time.Sleep(2 * time.Second)
				end(l)
			}
			var running []Lease
			l, rej := hold()
			for ; rej == nil; l, rej = hold() {
				running = append(running, l)
			}
			want := 2 * time.Second
			if took == held {
				want = time.Until(rej.Resets)
			}
			if rej.Reason != ReasonTokens || rej.Budget.Name() != "tokens per day" || rej.RetryAfter.Round(10*time.Millisecond) != want.Round(10*time.Millisecond) {
				t.Errorf("%s: promised %v, want %v: %v", name, rej.RetryAfter, want, rej)
			}
			if text := rej.Error(); !strings.Contains(text, "tokens per day: Limit 10000") || !strings.Contains(text, "It resets at 2000-01-02T00:00:00Z.") {
				t.Errorf("%s: %s", name, text)
			}
			for _, l := range running {
				end(l)
			}
			_, rej = hold()
			if (rej != nil && rej.Reason == ReasonBudget) != (took == held) {
				t.Errorf("%s: when all have ended, got %v", name, rej)
			}
		}
	})
}

// In the last seconds of a budget nobody is sent back again and again to a rest that others use up.
func TestBudget_LastSecondsCallNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: 1_000_000, Per: budget.Day}}}}})
		rng := rand.New(rand.NewPCG(4, 7))
		var mu sync.Mutex
		random := func(n int64) int64 {
			mu.Lock()
			defer mu.Unlock()
			return rng.Int64N(n)
		}
		sentBack := 0
		callers := 32
		testkit.AtOnce(callers, func(_ int) {
			for {
				tokens := 500 + random(1000)
				l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m", Input: tokens}))
				if rej != nil && rej.RetryAfter > time.Minute {
					return
				}
				if rej != nil {
					mu.Lock()
					sentBack++
					mu.Unlock()
					time.Sleep(rej.RetryAfter)
					continue
				}
				time.Sleep(time.Second + time.Duration(random(int64(2*time.Second))))
				if random(10) == 0 { // one of ten runs long
					time.Sleep(time.Duration(random(int64(45 * time.Second))))
				}
				l.Settle(Usage{Input: tokens - tokens/10 + random(tokens/5)})
			}
		})
		if used := spent(g, 0, 0).Used; used < 990_000 || sentBack > 2*callers {
			t.Errorf("%d callers were sent back %d times before %d of 1000000 were used", callers, sentBack, used)
		}
	})
}

// A call that is expected to take more than is left goes when nothing is in flight, and
// what it takes is debt.
func TestBudget_LargerThanAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Hour}}}}})
		l := admitted(t, g, demand("a", 5000))
		if _, rej := Refused(g.Acquire(t.Context(), demand("a", 1))); rej == nil {
			t.Error("a second call beside one that holds all")
		}
		l.Settle(Usage{Output: 4000})
		if _, rej := Refused(g.Acquire(t.Context(), demand("a", 1))); rej == nil || rej.Reason != ReasonBudget {
			t.Errorf("with 4000 of 1000 used: %+v", rej)
		}
	})
}

// Of who declares 16,000 and takes 500 nothing is learned before 20 calls have ended.
// The guess bars nobody from what is left, not of the tenant's budget, nor of its part
// of the pool's; and it refuses nobody after a restart, when all lengths are forgotten.
func TestBudget_AGuessBarsNobody(t *testing.T) {
	for name, cfg := range map[string]Config{
		"own":  {Pools: []Pool{wide("p")}, Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitTokens, Limit: 20_000, Per: budget.Day}}}}},
		"part": {Pools: []Pool{wide("p", Budget{Unit: UnitTokens, Limit: 40_000, Per: budget.Day})}, Tenants: []Tenant{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			m := &memory{left: 1 << 30}
			cfg.Journal = m
			g := must(t, cfg)
			n := 0
			rej := (*Refusal)(nil)
			for range 100 {
				if n%15 == 14 {
					cfg.Past = m.past(nil)
					g = must(t, cfg)
				}
				var l Lease
				l, rej = Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m", Input: 100, Output: 16_000}))
				if rej != nil {
					break
				}
				time.Sleep(time.Second)
				l.Settle(Usage{Input: 100, Output: 400})
				n++
			}
			if n < 40 || n > 41 {
				t.Errorf("after %d calls of 500: %v", n, rej)
			}
		})
	}
}

// Calls that come when a budget is spent go in the background if it says so: the slot that is kept for others they do not take. What they take is counted, also of
// what is held no more, and in the next period nothing of it is left.
func TestBudget_ThenBackground(t *testing.T) {
	spends := []Budget{{Unit: UnitRequests, Limit: 2, Per: budget.Hour, Background: true}}
	pool := Pool{Name: "p", Concurrency: 2, InteractiveReserve: 1, MaxQueue: 10}
	ofPool := pool
	ofPool.Budgets = spends
	for name, tt := range map[string]struct {
		pool    Pool
		tenants []Tenant
		caller  string
	}{
		"of a tenant":        {pool, []Tenant{{Name: "a", Weight: 1, Budgets: spends}}, "a"},
		"of a team's parent": {pool, []Tenant{{Name: "a", Weight: 1, Budgets: spends}, {Name: "a/b", Weight: 1}}, "a/b"},
		"of a pool":          {ofPool, []Tenant{{Name: "a", Weight: 1}}, "a"},
		"of a member":        {pool, []Tenant{{Name: "a", Weight: 1, Members: &Members{Each: Tenant{Budgets: spends}}}}, terms.MemberName("a", "m")},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			g := must(t, Config{Pools: []Pool{tt.pool}, Tenants: tt.tenants})
			one := Request{Tenant: tt.caller, Pool: "p", Output: 1}
			call := func() (Lease, *Refusal) { return Refused(g.Acquire(t.Context(), one)) }
			for hour := range 2 {
				first, _ := call()
				second, rej := call()
				if rej != nil {
					t.Fatalf("hour %d: within the budget: %v", hour, rej)
				}
				first.Settle(Usage{Output: 1})
				second.Settle(Usage{Output: 1})
				third, rej := call()
				if rej != nil {
					t.Fatalf("hour %d: beyond it: %v", hour, rej)
				}
				if _, rej := call(); rej == nil || rej.Axis != refusal.AxisBackground {
					t.Errorf("hour %d: one that would take the last slot got %+v", hour, rej)
				}
				if o, _ := g.Explain(one); o.Refused == nil || o.Refused.Axis != refusal.AxisBackground {
					t.Errorf("hour %d: explained as %+v", hour, o.Refused)
				}
				third.Settle(Usage{Output: 1})
				time.Sleep(time.Hour)
			}
		})
	}
}

// Of two budgets of which one refuses, and of a pool that refuses after both, nothing
// is held; and the budget that is spent is the one that is named.
func TestI10_BudgetsAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10, Budgets: []Budget{{Unit: UnitTokens, Limit: 1e6, Per: budget.Day}, {Unit: UnitTokens, Limit: 1200, Per: budget.Hour}}}},
			Tenants: []Tenant{
				{Name: "a", Weight: 1, TPM: 1e6, Budgets: []Budget{{Unit: UnitTokens, Limit: 1e6, Per: budget.Day}, {Unit: UnitMicroUSD, Limit: 900, Per: budget.Hour}, {Unit: UnitTokens, Limit: 5000, Per: budget.Month}}},
				{Name: "b", Weight: 1, Pools: []string{}},
			},
		})
		check := func(what string, rej *Refusal, reason Reason, own bool, tokens int64) {
			t.Helper()
			if rej == nil || rej.Reason != reason || rej.Own != own {
				t.Errorf("%s: %+v", what, rej)
			}
			s := g.State()
			for _, b := range append(s.Tenants[0].Budgets, s.Pools[0].Budgets...) {
				if b.Unit == UnitTokens && b.Used != tokens {
					t.Errorf("%s: %s counts %d, want %d", what, b.Name(), b.Used, tokens)
				}
			}
			if own, _ := used(g, 0); own != tokens {
				t.Errorf("%s: the tenant's minute counts %d, want %d", what, own, tokens)
			}
		}
		price := &Price{Output: 1_000_000} // a millionth a token
		req := func(n int64) Request {
			return Request{Tenant: "a", Pool: "p", Output: n, Price: price}
		}
		_, rej := Refused(g.Acquire(t.Context(), req(6000)))
		check("more than any budget", rej, ReasonTokens, false, 0)
		_, rej = Refused(g.Acquire(t.Context(), req(1100)))
		check("more than the pool's second", rej, ReasonTokens, false, 0)
		time.Sleep(10 * time.Minute)
		l := admitted(t, g, req(400))
		_, rej = Refused(g.Acquire(t.Context(), req(600))) // 1000 of 900 µ$, while 400 are held
		check("beside a call in flight", rej, ReasonTokens, true, 400)
		l.Settle(Usage{Output: 900})
		_, rej = Refused(g.Acquire(t.Context(), req(600)))
		check("of a spent budget", rej, ReasonBudget, true, 900)
	})
}

// Tenants have parts of a pool's budget by their effective weight: of what is
// reserved for others nobody takes anything, and what nobody claims any more is for
// whoever comes.
func TestBudget_OfAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{wide("p", Budget{Unit: UnitRequests, Limit: 1200, Per: budget.Hour})},
			Tenants: []Tenant{
				{Name: "big", Weight: 3},
				{Name: "x", Weight: 1, Group: "free", GroupWeight: 1},
				{Name: "y", Weight: 3, Group: "free", GroupWeight: 1},
				{Name: "elsewhere", Weight: 9, Pools: []string{}},
			},
		})
		take := func(tenant string) (n int, rej *Refusal) {
			for {
				l, rej := Refused(g.Acquire(t.Context(), demand(tenant, 10)))
				if rej != nil {
					return n, rej
				}
				l.Settle(Usage{Output: 10})
				n++
			}
		}
		for tenant, want := range map[string]int{"big": 900, "x": 75, "y": 225} {
			n, rej := take(tenant)
			if n != want {
				t.Errorf("%s took %d of 1200 at the start of the hour, want %d", tenant, n, want)
			}
			if rej.Pool != "p" || rej.Own {
				t.Errorf("%s was refused by %+v", tenant, rej)
			}
		}
		if _, rej := take("x"); rej.Reason != ReasonBudget || rej.RetryAfter != time.Hour {
			t.Errorf("of the spent budget of a pool: %+v", rej)
		}

		// In the next hour only x comes: it gets its own part, and then what the others
		// let pass.
		time.Sleep(time.Hour)
		n, rej := take("x")
		if n != 75 || rej.Reason != ReasonShare || rej.Limit != 75 || rej.Used != 75 {
			t.Errorf("x took %d, then %+v", n, rej)
		}
		if !strings.HasPrefix(rej.Error(), "The share of tenant x of the budget of pool p is used up for now (requests per hour: Limit 75, Used 75, Requested 1).") {
			t.Error(rej)
		}
		time.Sleep(rej.RetryAfter - time.Millisecond)
		if _, rej := g.Acquire(t.Context(), demand("x", 10)); rej == nil {
			t.Error("admitted before it was told to come back")
		}
		time.Sleep(time.Millisecond)
		if n, _ := take("x"); n != 1 {
			t.Errorf("who came when told took %d", n)
		}
		time.Sleep(30 * time.Minute)
		n, _ = take("x")
		if n < 500 || n > 650 {
			t.Errorf("after half an hour of silence of all others x took %d more, want about half of 1125", n)
		}
		if s := g.State(); s.Pools[0].Budgets[0].Used != int64(76+n) || s.Tenants[1].Budgets[0].Pool != "p" || s.Tenants[1].Budgets[0].Used != int64(76+n) {
			t.Errorf("the books say %+v and %+v", s.Pools[0].Budgets, s.Tenants[1].Budgets)
		}
	})
}

// Calls that come at all hours of four months get exactly the limit of each day, week
// and month of the calendar, through two changes of the clocks and a leap year.
func TestBudget_FollowsTheCalendar(t *testing.T) {
	berlin := testkit.Must(time.LoadLocation("Europe/Berlin"))(t)
	for _, per := range []budget.Period{budget.Day, budget.Week, budget.Month} {
		synctest.Test(t, func(t *testing.T) {
			g := must(t, Config{
				Zone:    berlin,
				Pools:   []Pool{wide("p")},
				Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitRequests, Limit: 7, Per: per}}}},
			})
			got := map[string]int{}
			for end := time.Date(2000, 11, 15, 0, 0, 0, 0, berlin); time.Now().Before(end); time.Sleep(20 * time.Minute) {
				now := time.Now().In(berlin)
				name := now.Format("2006-01-02")
				switch year, week := now.ISOWeek(); per {
				case budget.Week:
					name = fmt.Sprint(year, "-W", week)
				case budget.Month:
					name = now.Format("2006-01")
				}
				l, rej := Refused(g.Acquire(t.Context(), demand("a", 10)))
				if rej == nil {
					got[name]++
					l.Settle(Usage{Output: 10})
					continue
				}
				back := time.Now().Add(rej.RetryAfter).In(berlin)
				if rej.Reason != ReasonBudget || back.Hour() != 0 || back.Minute() != 0 || back.Second() != 0 {
					t.Fatalf("at %v: told to come back at %v by %+v", now, back, rej)
				}
			}
			for name, n := range got {
				if n != 7 {
					t.Errorf("%s: %d of 7", name, n)
				}
			}
			if want := map[budget.Period]int{budget.Day: 319, budget.Week: 47, budget.Month: 11}[per]; len(got) < want {
				t.Errorf("only %d periods", len(got))
			}
		})
	}
}

// Limits beyond what package budget counts are counted in larger units, on the side
// of the limit.
func TestBudget_OfAThousandMillionDollars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		price := &Price{Output: 1e10} // $10,000 a million
		g := must(t, Config{
			Pools:   []Pool{wide("p", Budget{Unit: UnitMicroUSD, Limit: MaxBudget, Per: budget.Month})},
			Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: []Budget{{Unit: UnitMicroUSD, Limit: MaxBudget - 1, Per: budget.Month}}}},
		})
		l := admitted(t, g, Request{Tenant: "a", Pool: "p", Output: 1, Price: &Price{Output: 1_000_000}})
		l.Settle(Usage{Output: 1})
		if b := g.State().Tenants[0].Budgets[0]; b.Used < 1 {
			t.Error("a millionth of a dollar counts nothing")
		}
		ask := func(n int64) *Refusal {
			l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Output: n, Price: price}))
			if rej == nil {
				l.Settle(Usage{Output: n})
			}
			return rej
		}
		if rej := ask(1e11 - 100_000); rej != nil { // all but $1000
			t.Fatal(rej)
		}
		beside := admitted(t, g, Request{Tenant: "a", Pool: "p", Output: 1, Price: &Price{Output: 1_000_000}})
		if rej := ask(100_001); rej == nil || rej.Reason != ReasonTokens {
			t.Errorf("a cent too much got %+v", rej)
		}
		if rej := ask(99_999); rej != nil {
			t.Error(rej)
		}
		beside.Release()
		for _, b := range g.State().Tenants[0].Budgets {
			if b.Used < MaxBudget-10_000 || b.Used > MaxBudget {
				t.Errorf("%+v", b)
			}
		}
	})
}

// Thousands of calls that end every way there is: at the end each budget counts what
// was settled, to the token, and nothing is held.
func TestBudget_StormAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Pools: []Pool{
			{Name: "p", TPM: 400_000, Concurrency: 8, Burst: 10 * time.Second, MaxQueue: 50, Budgets: []Budget{{Unit: UnitTokens, Limit: 3_000_000, Per: budget.Day}}},
			wide("q", Budget{Unit: UnitMicroUSD, Limit: 1e9, Per: budget.Week}),
		}}
		for i := range 4 {
			cfg.Tenants = append(cfg.Tenants, Tenant{
				Name: fmt.Sprint(i), Weight: escrow.Weight(i + 1), RPM: 400, MaxWait: time.Duration(i) * 700 * time.Millisecond,
				Budgets: []Budget{{Unit: UnitTokens, Limit: 600_000, Per: budget.Day}, {Unit: UnitMicroUSD, Limit: 1e9, Per: budget.Month}, {Unit: UnitRequests, Limit: 1e6, Per: budget.Hour}},
			})
		}
		g := must(t, cfg)
		time.Sleep(time.Hour)
		var mu sync.Mutex
		var tokens, money, requests [4]int64
		var pools [2]int64
		var reasons [NumReasons]int
		var wg sync.WaitGroup
		price := &Price{Output: 3_000_000}
		for i := range 4000 {
			rng := rand.New(rand.NewPCG(uint64(i), 9))
			wg.Go(func() {
				time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Minute))))
				who := rng.IntN(4)
				pool := rng.IntN(2)
				l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: fmt.Sprint(who), Pool: "pq"[pool : pool+1], Output: rng.Int64N(2000), Price: price}))
				if rej != nil {
					mu.Lock()
					reasons[rej.Reason]++
					mu.Unlock()
					return
				}
				time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
				n := rng.Int64N(2500)
				switch rng.IntN(6) {
				case 0:
					l.Release()
					return
				case 1:
					l.Break(Usage{Output: n})
				default:
					l.Settle(Usage{Output: n})
				}
				mu.Lock()
				defer mu.Unlock()
				reasons[ReasonNone]++
				tokens[who] += n
				money[who] += 3 * n
				requests[who]++
				pools[pool] += []int64{n, 3 * n}[pool]
			})
		}
		wg.Wait()
		for r, n := range reasons {
			t.Logf("%-12s %d", Reason(r), n)
		}
		if reasons[ReasonBudget] == 0 || reasons[ReasonTokens]+reasons[ReasonConcurrency]+reasons[ReasonShare] == 0 {
			t.Error("nobody was refused by a budget, or nobody by a pool")
		}
		s := g.State()
		for i, ts := range s.Tenants {
			for k, want := range []int64{tokens[i], money[i], requests[i]} {
				if b := ts.Budgets[k]; b.Used != want {
					t.Errorf("%s: %s counts %d, %d were settled", ts.Config.Name, b.Name(), b.Used, want)
				}
			}
		}
		for i, p := range g.table.inOrder.pools {
			if got := s.Pools[i].Budgets[0].Used; got != pools[i] {
				t.Errorf("pool %d counts %d, %d were settled", i, got, pools[i])
			}
			for _, a := range p.shares {
				if err := a.split.Check(); err != nil || a.pending != 0 {
					t.Errorf("%d are held when all is over (%v)", a.pending, err)
				}
			}
		}
		for _, tn := range g.table.inOrder.tenants {
			for _, a := range tn.over.caps {
				if a.pending != 0 {
					t.Errorf("%d of %s are held when all is over", a.pending, a.Name())
				}
			}
		}
	})
}

func TestBudgets_DoNotAllocate(t *testing.T) {
	day := []Budget{{Unit: UnitTokens, Limit: 1e12, Per: budget.Day}, {Unit: UnitMicroUSD, Limit: 1e15, Per: budget.Month}}
	g := must(t, Config{Pools: []Pool{wide("p", day...)}, Tenants: []Tenant{{Name: "a", Weight: 1, Budgets: day}, {Name: "b", Weight: 1}}})
	ctx := t.Context()
	price := &Price{Input: 1, CachedInput: 1, Output: 1}
	if n := testkit.Allocs(t, 1000, func() {
		l, rej := Refused(g.Acquire(ctx, Request{Tenant: "a", Pool: "p", Input: 10, Output: 10, Price: price}))
		if rej != nil {
			t.Fatal(rej)
		}
		l.Settle(Usage{Input: 10, Output: 5})
	}); n != 0 {
		t.Errorf("with budgets Acquire and Settle allocate %v times", n)
	}
}

func TestBudgets_Validate(t *testing.T) {
	_, err := New(Config{
		Pools:   []Pool{wide("p", Budget{Unit: UnitTokens, Limit: 0, Per: budget.Day}, Budget{Unit: UnitTokens, Limit: 5, Per: budget.Day})},
		Tenants: []Tenant{{Name: "a", Weight: 0.001, Budgets: []Budget{{Unit: Unit(7), Limit: 1, Per: budget.Day}, {Unit: UnitMicroUSD, Limit: 2e15, Per: budget.Month}}}},
	})
	want := `governor: pool p: budget of tokens per day: 0 is not in 1…1000000000000000
governor: pool p: budget of tokens per day is there twice
governor: tenant a: budget 0 has no such unit or period
governor: tenant a: budget of usd per month: 2000000000000000 is not in 1…1000000000000000`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
