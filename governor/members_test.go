package governor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor/terms"
)

// withMembers is a pool whose tenant org has members.
func withMembers(each Tenant) Config {
	return Config{
		Pools: []Pool{{Name: "p", TPM: 600_000, MaxQueue: 1000, Burst: 10 * time.Second}},
		Tenants: []Tenant{
			{Name: "org", Weight: 2, MaxWait: time.Hour, Members: &Members{Each: each, Of: map[string]terms.MemberOverride{}}},
			{Name: "org/x", Weight: 1, MaxWait: time.Hour},
			{Name: "solo", Weight: 1, MaxWait: time.Hour},
		},
	}
}

// Members divide what their tenant has, however many calls each of them makes: of its share of the pool, and of its own limit. A member is
// not the team, nor the tenant, of its name.
func TestMembers_ShareWhatTheirTenantHas(t *testing.T) {
	workers := map[string]int{"solo": 8, "org/x": 4, "org/~greedy": 60, "org/~x": 4, "org/~solo": 4, "org": 4}
	for i := range 16 {
		workers[fmt.Sprint("org/~m", i)] = 3
	}
	for name, c := range map[string]struct {
		tpm       int64
		solo, all float64
	}{
		"of the pool":    {0, 1. / 3, 2. / 3},
		"of their limit": {120_000, 0.8, 0.2},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := withMembers(Tenant{})
			cfg.Tenants[0].TPM = c.tpm
			got := flood(t, cfg, workers)
			want := map[string]float64{"solo": c.solo, "org/x": c.all / 2}
			for who := range workers { // 19 names, and those without one
				if who == "org" || strings.HasPrefix(who, "org/~") {
					want[who] = c.all / 2 / 20
				}
			}
			if c.tpm > 0 { // a limit's line knows no tree
				delete(want, "solo")
				delete(want, "org/x")
				for who := range want {
					want[who] = c.all / 21
				}
			}
			for who, share := range want { // within 3 %, and the call that is under way
				if math.Abs(got[who]-share) > 0.03*share+0.0004 {
					t.Errorf("%s: %s received %.4f of the limit, want %.4f", name, who, got[who], share)
				}
			}
		})
	}
}

// What a member takes of a budget that a reload has added is still spent after a restart with a journal. A call that began before is its tenant's.
func TestMembers_BudgetsOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &memory{left: -1}
		cfg := withMembers(Tenant{})
		cfg.Journal = journal
		cfg.Pools[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 100_000, Per: budget.Day}}
		g := must(t, cfg)
		before := admitted(t, g, demand("org/~ann", 100))
		members := *cfg.Tenants[0].Members
		members.Each.Budgets = []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}
		cfg.Tenants[0].Members = &members
		apply(t, g, cfg)
		before.Settle(Usage{Output: 100})
		admitted(t, g, demand("org/~ann", 900)).Settle(Usage{Output: 900})
		cfg.Past = journal.past(time.UTC)
		g = must(t, cfg)
		if st, _ := g.TenantState("org/~ann"); st.Budgets[0].Used != 900 {
			t.Errorf("after a restart ann's budget has %d used, want 900", st.Budgets[0].Used)
		}
		for _, m := range g.pools["p"].shares[0].split.State(time.Now()).Members {
			if want := map[string]int64{"org": 1000}[m.Name]; m.Used != want {
				t.Errorf("after a restart %s has used %d of the pool's budget, want %d", m.Name, m.Used, want)
			}
		}
	})
}

// A member's budget of ten lets ten of fifty calls at once go, whatever other members take, and is still spent after a reload, and after it was
// forgotten.
func TestMembers_Budgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := withMembers(Tenant{Budgets: []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}})
		g := must(t, cfg)
		go50 := func(who string) (went int64) {
			var n atomic.Int64
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					l, rej := Refused(g.Acquire(t.Context(), demand(who, 100)))
					switch {
					case rej == nil:
						n.Add(1)
						time.Sleep(time.Second)
						l.Settle(Usage{Output: 100})
					case rej.Reason != ReasonBudget && rej.Reason != ReasonTokens || !strings.Contains(rej.Error(), "member ann of tenant org") && who == "org/~ann":
						t.Errorf("%s: %v", who, rej)
					}
				})
			}
			wg.Wait()
			return n.Load()
		}
		for who, want := range map[string]int64{"org/~ann": 10, "org/~bob": 10, "org": 10} {
			if got := go50(who); got != want {
				t.Errorf("%d calls of %s went, want %d", got, who, want)
			}
		}
		cfg.Tenants[0].Weight = 3
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		if got := go50("org/~ann"); got != 0 {
			t.Errorf("%d calls of ann went after a reload", got)
		}
		roster := g.tenants["org"].roster
		time.Sleep(5 * time.Minute)
		if got := go50("org/~ann") + go50("org/~bob"); got != 0 {
			t.Errorf("%d calls went of budgets that were spent", got)
		}
		time.Sleep(48 * time.Hour)
		for i := range 20 {
			go50(fmt.Sprint("org/~new", i))
		}
		if roster.named["ann"] != nil || roster.named["bob"] != nil {
			t.Errorf("after two days the tenant still has %d members", len(roster.list))
		}
		if got := go50("org/~ann"); got != 10 {
			t.Errorf("%d calls of ann went in another day, want 10", got)
		}
		check(t, g)
	})
}

// What a member takes of a budget for life is spent for good, over months in which it calls, reloads and restarts, until it has not called for
// MemberLife; then nothing of it is kept.
func TestMembers_Life(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &memory{left: -1}
		cfg := withMembers(Tenant{Budgets: []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Life}}})
		cfg.Journal = journal
		g := must(t, cfg)
		call := func(who string, want int64) {
			t.Helper()
			l, rej := Refused(g.Acquire(t.Context(), demand(who, 300)))
			if rej != nil {
				if want > 0 || rej.Reason != ReasonBudget {
					t.Errorf("%s: %v", who, rej)
				}
				return
			}
			l.Settle(Usage{Output: want})
			if want == 0 {
				t.Errorf("%s went, and its budget is spent", who)
			}
		}
		for range 4 {
			call("org/~session:run", 250)
			call("org/~ann", 10)
			time.Sleep(25 * 24 * time.Hour) // into another month
		}
		call("org/~session:run", 0)
		_, rej := Refused(g.Acquire(t.Context(), demand("org/~session:run", 300)))
		if text := rej.Error(); !strings.Contains(text, "The budget of session run of tenant org is spent (tokens per life: Limit 1000, Used 1000, Requested 300).") || !strings.Contains(text, "begin another session") {
			t.Error(text)
		}
		cfg.Tenants[0].Weight = 3
		apply(t, g, cfg)
		call("org/~session:run", 0)
		members := *cfg.Tenants[0].Members
		members.Each.Budgets = append(slices.Clone(members.Each.Budgets), Budget{Unit: UnitRequests, Limit: 100, Per: budget.Life})
		cfg.Tenants[0].Members = &members
		apply(t, g, cfg)
		if st, _ := g.TenantState("org/~ann"); st.Budgets[1].Used != 4 {
			t.Errorf("of a budget for life that was added ann has used %d requests, want all 4 that she has made", st.Budgets[1].Used)
		}
		cfg.Past = journal.past(time.UTC)
		g = must(t, cfg)
		call("org/~session:run", 0)
		if st, _ := g.TenantState("org/~ann"); st.Budgets[0].Used != 40 {
			t.Errorf("after a restart ann has used %d of her life's budget, want 40", st.Budgets[0].Used)
		}
		rows := len(g.tally.uses.Owners())
		time.Sleep(terms.MemberLife + 3*24*time.Hour)
		for i := range 20 {
			call(fmt.Sprint("org/~new", i), 1)
		}
		if g.tenants["org"].roster.named["session:run"] != nil || len(g.tally.uses.Owners()) > rows-2+20 {
			t.Errorf("after its life the member is still known, or one of %d rows", len(g.tally.uses.Owners()))
		}
		call("org/~session:run", 250)
		check(t, g)
	})
}

// The calls of others wait beside a member that asks for all at once as they do beside one that asks as they do.
func TestMembers_WaitsBesideAGreedyOne(t *testing.T) {
	steady := limits.Window{Of: limits.Tokens, Rule: shape.Rule{Kind: shape.TokenBucket, Amount: 300_000, Per: time.Minute, Burst: 5000}}
	waits := func(limited string, greedy int) (p50, p99 time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			cfg := withMembers(Tenant{})
			if limited == "by the pool" {
				cfg.Pools[0].TPM = 300_000
			} else { // a rolling minute lets go what it has at once
				cfg.Tenants[0].Windows = []limits.Window{steady}
			}
			g := must(t, cfg)
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var mu sync.Mutex
			var all []time.Duration
			for i := range 50 { // each asks for half of what it may have
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 400 * time.Millisecond)
					for ctx.Err() == nil {
						began := time.Now()
						l, rej := g.Acquire(ctx, demand(fmt.Sprint("org/~m", i), 1000))
						if rej != nil {
							return
						}
						l.Settle(Usage{Output: 1000})
						mu.Lock()
						all = append(all, time.Since(began))
						mu.Unlock()
						time.Sleep(time.Until(began.Add(20 * time.Second)))
					}
				})
			}
			for range greedy {
				wg.Go(func() {
					for ctx.Err() == nil {
						if l, rej := g.Acquire(ctx, demand("org/~greedy", 1000)); rej == nil {
							l.Settle(Usage{Output: 1000})
						}
					}
				})
			}
			time.Sleep(10 * time.Minute)
			stop()
			wg.Wait()
			slices.Sort(all)
			p50, p99 = all[len(all)/2], all[len(all)*99/100]
		})
		return p50, p99
	}
	for _, limited := range []string{"by the pool", "by their bucket"} {
		p50, p99 := waits(limited, 0)
		beside50, beside99 := waits(limited, 200)
		t.Logf("%s: alone p50 %s, p99 %s; beside a greedy one p50 %s, p99 %s", limited, p50, p99, beside50, beside99)
		if beside50 > p50+200*time.Millisecond || beside99 > p99+300*time.Millisecond { // a call of the greedy one takes 0.2 s of the limit
			t.Errorf("%s: others wait for %s (p50) and %s (p99) beside a greedy member, and for %s and %s without it", limited, beside50, beside99, p50, p99)
		}
	}
}

// The members that took the most lately are told, the heaviest first.
func TestHeaviest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, withMembers(Tenant{}))
		for i := range 600 {
			admitted(t, g, demand(fmt.Sprint("org/~m", i), 1)).Settle(Usage{Output: 1})
		}
		for who, n := range map[string]int64{"org/~m7": 100, "org/~m500": 300, "org/~m300": 200, "solo": 500} {
			admitted(t, g, demand(who, n)).Settle(Usage{Output: n})
		}
		list, total := g.Heaviest("org", 3)
		if got := fmt.Sprint(list); total != 600 || got != "[{org/~m500 m500 301} {org/~m300 m300 201} {org/~m7 m7 101}]" {
			t.Errorf("of %d the heaviest are %s", total, got)
		}
		time.Sleep(2 * time.Minute)
		admitted(t, g, demand("org/~m7", 60)).Settle(Usage{Output: 60})
		if list, _ = g.Heaviest("org", 1); list[0].Name != "org/~m7" || list[0].Tokens > 75 {
			t.Errorf("two minutes later it is %v", list)
		}
		for who, most := range map[string]int{"solo": 3, "none": 3, "org": 0} {
			if list, total := g.Heaviest(who, most); len(list)+total > 0 {
				t.Errorf("%s has members among the first %d: %v", who, most, list)
			}
		}
	})
}

// Who looks at a name under which nobody has called sees what a member would have, and makes none.
func TestMembers_Looks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := withMembers(Tenant{RPM: 7, Budgets: []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}})
		g := must(t, cfg)
		admitted(t, g, demand("org/~bob", 100)).Settle(Usage{Output: 100})
		for who, used := range map[string]int64{"org/~bob": 1, "org/~ann": 0, "org/~": 0} {
			st, ok := g.TenantState(who)
			if !ok || st.Budgets[0].Used != 100*used || st.Limits[0].Used != used || st.Limits[0].Limit != 7 {
				t.Errorf("%s: %+v", who, st)
			}
			if q := g.Standing(who, "p").Requests; q.Limit != 7 || q.Remaining != 7-used {
				t.Errorf("%s: of the requests %+v", who, q)
			}
			if g.Called(who) != (used > 0) {
				t.Errorf("%s has called: %t", who, g.Called(who))
			}
		}
		if n := len(g.tenants["org"].roster.list); n != 1 {
			t.Errorf("there are %d members, and one has called", n)
		}
	})
}

// check holds the books of all pools against each other.
func check(t *testing.T, g *Governor) {
	t.Helper()
	for _, p := range g.pools {
		if err := p.escrow.Check(); err != nil {
			t.Error(err)
		}
	}
}

// An override holds until its end, and then what comes after it, or what each member has; a reload changes both at once, and takes members away.
func TestMembers_Overrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := withMembers(Tenant{RPM: 2})
		cfg.Tenants[0].MaxWait = 0
		m := cfg.Tenants[0].Members
		m.Of["ann"] = terms.MemberOverride{Tenant: Tenant{RPM: 5}, Until: time.Now().Add(10 * time.Minute), Then: &terms.MemberOverride{Tenant: Tenant{RPM: 3}, Until: time.Now().Add(12 * time.Minute)}}
		g := must(t, cfg)
		goes := func(who string) (n int) {
			for range 10 {
				l, rej := Refused(g.Acquire(t.Context(), demand(who, 10)))
				if rej == nil {
					n++
					l.Settle(Usage{Output: 10})
				} else if rej.Reason != ReasonRequests && rej.Reason != ReasonUnknown {
					t.Errorf("%s: %v", who, rej)
				}
			}
			return n
		}
		want := func(ann, bob int) {
			t.Helper()
			if a, b := goes("org/~ann"), goes("org/~bob"); a != ann || b != bob {
				t.Errorf("%d calls of ann and %d of bob went, want %d and %d", a, b, ann, bob)
			}
		}
		want(5, 2)
		time.Sleep(9 * time.Minute)
		want(5, 2)
		time.Sleep(2 * time.Minute)
		want(3, 2)
		time.Sleep(2 * time.Minute)
		m2 := *m
		m2.Each.RPM = 4
		cfg.Tenants[0].Members = &m2
		cfg.Tenants[0].Group = "g" // its leaf is another one
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		want(4, 4)
		running, _ := Refused(g.Acquire(t.Context(), demand("org/~carl", 10)))
		cfg.Tenants[0].Members = nil
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		want(0, 0) // nobody is called so
		done := demand("org/~bob", 10)
		done.Forced = true
		if l, rej := Refused(g.Acquire(t.Context(), done)); rej != nil {
			t.Errorf("what bob took before: %v", rej)
		} else {
			l.Settle(Usage{Output: 10})
		}
		if l, rej := Refused(g.Acquire(t.Context(), demand("org", 10))); rej != nil {
			t.Errorf("the tenant itself: %v", rej)
		} else {
			l.Settle(Usage{})
		}
		running.Settle(Usage{Output: 10})
		cfg.Tenants[0].Members = m
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		want(2, 2)
		time.Sleep(3 * time.Minute)
		want(2, 2)
		check(t, g)
	})
}

// Whoever makes up names gets no more of the pool's queue, nor of its tenant's memory, than others of its kind.
func TestMembers_Floods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := withMembers(Tenant{})
		cfg.Pools[0].MaxQueue = 64
		cfg.Pools[0].TPM = 6_000
		g := must(t, cfg)
		var wg sync.WaitGroup
		var full atomic.Int64
		for i := range 500 {
			wg.Go(func() {
				l, rej := Refused(g.Acquire(t.Context(), demand(fmt.Sprint("org/~made-up-", i), 1000)))
				switch {
				case rej == nil:
					l.Settle(Usage{Output: 1000})
				case rej.Reason == ReasonQueueFull:
					full.Add(1)
				default:
					t.Errorf("a made-up name is refused by %v: %v", rej.Reason, rej)
				}
			})
		}
		synctest.Wait()
		if full.Load() < 460 {
			t.Errorf("only %d calls of made-up names found the tenant's part of the queue full", full.Load())
		}
		l, rej := Refused(g.Acquire(t.Context(), demand("solo", 1000)))
		if rej != nil {
			t.Errorf("a tenant beside made-up names: %v", rej)
		}
		l.Settle(Usage{Output: 1000})
		wg.Wait()
		time.Sleep(5 * time.Minute)
		for i := range 200 {
			l, _ := Refused(g.Acquire(t.Context(), demand(fmt.Sprint("org/~", i), 1)))
			l.Settle(Usage{})
		}
		if n := len(g.tenants["org"].roster.list); n > 250 {
			t.Errorf("the tenant still has %d members", n)
		}
		if t.Failed() || testing.Short() {
			return
		}
		tb := g.table
		for i := range terms.MostMembers + 1000 {
			tb.view(time.Now(), fmt.Sprint("org/~many-", i), "p")
		}
		if n := len(g.tenants["org"].roster.list); n != terms.MostMembers+1 { // with those that give no name
			t.Errorf("%d members are told apart, want %d", n, terms.MostMembers+1)
		}
		if _, rej := Refused(g.Acquire(t.Context(), demand("org/~one-more", 1))); rej != nil {
			t.Errorf("one more member: %v", rej)
		}
	})
}

// Of as many members as there may be one gives way to a new one if nothing would be lost or counted twice, wherever those without a name stand. What these
// use is always written down.
func TestMembers_GiveWay(t *testing.T) {
	for name, c := range map[string]struct {
		shared bool
		call   Request
		gives  bool
	}{
		"used":                {false, demand("org/~ann", 60), true},
		"used, with a store":  {true, demand("org/~ann", 60), false},
		"committed for hours": {false, Request{Tenant: "org/~ann", Pool: "p", Output: 60, BudgetsOnly: true}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := withMembers(Tenant{Budgets: []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}})
			cfg.SharedLimits = c.shared
			g := must(t, cfg)
			c.call.Forced = true
			l := admitted(t, g, c.call)
			if !c.call.BudgetsOnly {
				l.Settle(Usage{Output: 60})
			}
			time.Sleep(3 * time.Minute)
			g.look() // a timer may ring at this very time
			defer g.unlock()
			g.table.view(time.Now(), "org/~", "")
			roster := g.tenants["org"].roster
			roster.named[""].seen = time.Time{}
			calls := roster.newMember(time.Now(), "calls", nil)
			calls.underway = 1
			roster.list = slices.Concat([]*member{roster.named[""]}, slices.Repeat([]*member{calls}, terms.MostMembers-1), []*member{roster.named["ann"]})
			roster.sweep = terms.MostMembers - 1
			g.table.view(time.Now(), "org/~new", "")
			if gave := roster.named["ann"] == nil; gave != c.gives || gave != (roster.named["new"] != nil) || roster.named[""] == nil || len(roster.list) != terms.MostMembers+1 {
				t.Errorf("%s: gave way: %t, among %d", name, gave, len(roster.list))
			}
		})
	}
}

// Whoever has made up as many names as there may be, each with something used of a budget for life, blocks no new one after two minutes: who has not called for
// longest gives way, and what it has used is known when it comes again, of as many members as there may be.
func TestMembers_MadeUpForLife(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 members")
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := withMembers(Tenant{Budgets: []Budget{{Unit: UnitTokens, Limit: 100, Per: budget.Life}}})
		cfg.Pools[0].TPM = 0
		cfg.Pools[0].Concurrency = 1000
		g := must(t, cfg)
		take := func(who string) { admitted(t, g, demand(who, 60)).Settle(Usage{Output: 60}) }
		for i := range terms.MostMembers {
			take(fmt.Sprint("org/~made-up-", i))
		}
		take("org/~at-once")
		if st, _ := g.TenantState("org/~"); st.Budgets[0].Used != 60 {
			t.Errorf("while all have just called, those without a name have used %d, want 60 of the one that was one too many", st.Budgets[0].Used)
		}
		time.Sleep(3 * time.Minute)
		for i := range 100 {
			take(fmt.Sprint("org/~new-", i))
		}
		roster := g.tenants["org"].roster
		if n := len(roster.list); n > terms.MostMembers+1 || roster.named["new-0"] == nil || roster.named["new-99"] == nil {
			t.Errorf("%d members are told apart, the new ones: %t", n, roster.named["new-99"] != nil)
		}
		gone := 0
		for roster.named[fmt.Sprint("made-up-", gone)] != nil {
			gone++
		}
		again := fmt.Sprint("org/~made-up-", gone)
		take(again)
		if st, _ := g.TenantState(again); st.Budgets[0].Used != 120 {
			t.Errorf("one that gave way and came again has used %d, want 120", st.Budgets[0].Used)
		}
		if n := len(g.tally.uses.Owners()); n > terms.MostMembers+1 {
			t.Errorf("what is used is written down of %d members, want %d at most", n, terms.MostMembers)
		}
		check(t, g)
	})
}
