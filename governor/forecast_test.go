package governor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// What is explained is what happens: a call gets the refusal that was foretold, or
// goes if none was; and to ask changes nothing.
func TestExplain_IsWhatHappens(t *testing.T) {
	cfg := small()
	cfg.Pools[0].TicketWait = 0 // whose place is kept is not foretold
	var foretold []string
	asked := walkTeams(t, cfg, func(g *Governor, _ int, req Request) {
		o, ok := g.Explain(req)
		if !ok || len(o.Checks) == 0 || o.Wait != 0 {
			t.Errorf("%s in %s: %+v", req.Tenant, req.Pool, o)
		}
		foretold = append(foretold, fmt.Sprint(o.Refused))
	})
	if diff := cmp.Diff(foretold, asked); diff != "" {
		t.Errorf("what was foretold did not happen (-foretold +happened):\n%s", diff)
	}
	unasked := walkTeams(t, cfg, func(g *Governor, _ int, req Request) {
		// The books are brought up to date by whoever asks.
		now := g.look()
		defer g.unlock()
		at := g.table.find(now, &req)
		at.pool.escrow.Foretell(now, escrow.Call{Leaf: at.access.seat.leaf, Most: escrow.Cost{1, 1}})
	})
	if diff := cmp.Diff(unasked, asked); diff != "" {
		t.Errorf("to ask changed what happened (-unasked +asked):\n%s", diff)
	}
}

// Of a call that would wait it is told how long, and each limit says what it has.
func TestExplain_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "org", Weight: 1, RPM: 1},
				{Name: "org/x", Weight: 1, MaxWait: time.Hour, InPool: map[string]Limits{"p": {TPM: 500}}},
				{Name: "b", Weight: 1, MaxWait: 10 * time.Second},
			},
		})
		l, _ := g.Acquire(t.Context(), demand("org/x", 400))
		l.Settle(Usage{Output: 400})
		time.Sleep(20 * time.Second)
		o, ok := g.Explain(demand("org/x", 9000))
		if !ok || o.Refused != nil || o.Wait < 40*time.Second || o.Wait > 41*time.Second {
			t.Errorf("%+v", o)
		}
		var got []string
		for _, c := range o.Checks {
			got = append(got, fmt.Sprintf("%s|%s|%s %d/%d+%d", c.Tenant, c.Pool, c.Axis, c.Used, c.Limit, c.Asked))
		}
		want := []string{"org/x|p|tokens 400/500+500", "org||requests 1/1+1", "|p|tokens 400/60000+9000"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		var wg sync.WaitGroup
		wg.Go(func() { // a pool that refills at 1000 tokens a second
			if l, rej := g.Acquire(t.Context(), demand("b", 3000)); rej == nil {
				l.Settle(Usage{Output: 3000})
			}
		})
		synctest.Wait()
		if o, _ := g.Explain(demand("b", 2000)); o.Refused != nil || o.Wait < 2*time.Second || o.Wait > 6*time.Second {
			t.Errorf("behind others: %+v", o)
		}
		req := demand("b", 2000)
		patience := time.Second
		req.MaxWait = &patience
		if o, _ := g.Explain(req); o.Refused == nil || o.Refused.RetryAfter < 2*time.Second {
			t.Errorf("beyond its patience: %+v", o)
		}
		wg.Wait()
		if _, ok := g.Explain(demand("nobody", 1)); ok {
			t.Error("it explains what nobody would get")
		}
	})
}

// What remains of a call is what calls of its kind have taught: by how long they run
// where slots are limited, else by what they produce; it shrinks as the call goes on,
// and is nothing when it has ended.
func TestRemaining(t *testing.T) {
	for _, slots := range []int64{0, 8} {
		synctest.Test(t, func(t *testing.T) {
			g := must(t, Config{
				Pools:   []Pool{{Name: "p", TPM: 10_000_000, Concurrency: slots, MaxQueue: 10}},
				Tenants: []Tenant{{Name: "a", Weight: 1}},
			})
			req := demand("a", 1000)
			near := func(what string, got, want time.Duration) {
				t.Helper()
				if got < want*9/10 || got > want*11/10 {
					t.Errorf("slots %d: %s %v remain, want about %v", slots, what, got, want)
				}
			}
			if o, _ := g.Explain(req); o.Run != 0 {
				t.Errorf("slots %d: a call of which nothing is known is to run for %v", slots, o.Run)
			}
			l, _ := g.Acquire(t.Context(), demand("a", 200)) // at 50 a second
			began := time.Now()
			for age, want := range []time.Duration{0, time.Second, 2 * time.Second, time.Second} {
				time.Sleep(time.Duration(age)*time.Second - time.Since(began))
				near("of a call of 4 s at most of which nothing is known, as long again", l.Remaining(), want)
			}
			l.Release()
			for range 60 { // 400 tokens in 4 s
				l, _ := g.Acquire(t.Context(), req)
				time.Sleep(4 * time.Second)
				l.Settle(Usage{Output: 400})
			}
			o, _ := g.Explain(req)
			near("of a call that did not begin", o.Run, 4*time.Second)
			l, _ = g.Acquire(t.Context(), req)
			near("of one that begins", l.Remaining(), 4*time.Second)
			time.Sleep(time.Second)
			near("of a plain one after 1 s", l.Remaining(), 3*time.Second)
			if slots == 0 {
				l.Progress(200) // in 1 s: it is faster than others
				near("of a stream with 200 of 400 tokens", l.Remaining(), time.Second)
			}
			l.Settle(Usage{Output: 400})
			if got := (Lease{}).Remaining() + l.Remaining(); got != 0 {
				t.Errorf("slots %d: %v remain of what has ended", slots, got)
			}
		})
	}
}

// late is a clock whose timers go off when the test says so.
type late struct {
	now  time.Time
	ring func()
}

func (c *late) Now() time.Time { return c.now }

func (c *late) AfterFunc(_ time.Duration, f func()) Timer {
	c.ring = f
	return lateTimer{}
}

type lateTimer struct{}

func (lateTimer) Reset(time.Duration) bool { return true }
func (lateTimer) Stop() bool               { return true }

// told takes down what is decided, as kind, call and milliseconds.
type told struct {
	since time.Time
	list  []string
}

func (d *told) Observe(e Event) {
	if e.Kind != EventStarted {
		d.list = append(d.list, fmt.Sprintf("%s %d %d", e.Kind, e.Call, e.At.Sub(d.since).Milliseconds()))
	}
}

// recordedPool admits ten calls a second, and lets one that comes too early wait.
func recordedPool(t *testing.T) (*Governor, *late, *told) {
	clock := &late{now: time.Unix(1_000_000, 0)}
	log := &told{since: clock.now}
	g := must(t, Config{
		Pools:   []Pool{{Name: "p", RPM: 600, MaxQueue: 100}},
		Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: 10 * time.Second}, {Name: "b", Weight: 1, MaxWait: 10 * time.Second}},
		Clock:   clock, Observer: log, Recorded: true,
	})
	t.Cleanup(g.Drain)
	for range 10 {
		g.Ask(Request{Tenant: "a", Pool: "p"}, func(Lease, *Refusal) {})
	}
	log.list = nil
	return g, clock, log
}

// However late a machine is, a timer counts as of the time that it was set to: whether
// the alarm goes off, something is told or somebody looks.
func TestTimeline_WhatIsDueComesFirst(t *testing.T) {
	for name, notice := range map[string]func(g *Governor, c *late){
		"the alarm":         func(_ *Governor, c *late) { c.ring() },
		"something is told": func(g *Governor, _ *late) { g.Throttle("p", []Cut{{Part: 1, Until: time.Unix(1_000_099, 0)}}) },
		"somebody looks":    func(g *Governor, _ *late) { g.State() },
	} {
		g, clock, log := recordedPool(t)
		for range 3 {
			g.Ask(Request{Tenant: "a", Pool: "p"}, func(Lease, *Refusal) {})
		}
		clock.now = clock.now.Add(5 * time.Second)
		notice(g, clock)
		admitted := slices.DeleteFunc(log.list, func(s string) bool { return s[0] != 'a' || s[1] != 'd' })
		if want := []string{"admitted 11 100", "admitted 12 201", "admitted 13 301"}; !slices.Equal(admitted, want) {
			t.Errorf("%s: %q, want %q", name, admitted, want)
		}
	}
}

// No two things are told at the same time, also where the clock stands still.
func TestTimeline_EachHasItsInstant(t *testing.T) {
	g, _, _ := recordedPool(t)
	before := g.line.told
	for range 3 {
		g.Ask(Request{Tenant: "b", Pool: "p"}, func(Lease, *Refusal) {})
		if !g.line.told.After(before) {
			t.Fatalf("something is told at %v, behind %v", g.line.told, before)
		}
		before = g.line.told
	}
}

// Who waits can go away, once, and a drain ends all waits in order.
func TestTimeline_Ends(t *testing.T) {
	g, clock, log := recordedPool(t)
	var leave []func()
	for range 3 {
		leave = append(leave, g.Ask(Request{Tenant: "b", Pool: "p"}, func(_ Lease, rej *Refusal) {
			if rej == nil {
				t.Error("a call was let go whose turn it was not")
			}
		}))
	}
	clock.now = clock.now.Add(50 * time.Millisecond)
	leave[1]()
	leave[1]()
	g.Drain()
	leave[0]()
	want := []string{
		"asked 11 0", "asked 12 0", "asked 13 0", "left 12 50", "refused 12 50",
		"drained 0 50", "refused 11 50", "refused 13 50",
	}
	if !slices.Equal(log.list, want) {
		t.Errorf("%q, want %q", log.list, want)
	}
	if _, rej := Refused(g.Acquire(context.Background(), Request{Tenant: "a", Pool: "p"})); rej == nil || rej.Reason != ReasonDraining {
		t.Errorf("after a drain a call gets %v", rej)
	}
}

// played is what a recorded governor decides of a course of calls by a seed, where
// somebody looks at random, or nobody ever does.
func played(t *testing.T, seed uint64, looked bool) []string {
	clock := &late{now: time.Unix(1_000_000, 0)}
	log := &told{since: clock.now}
	accounting := escrow.AdmitMax
	if seed%2 == 0 {
		accounting = escrow.Accounting(seed/2%2 + 1)
	}
	cfg := Config{
		Pools: []Pool{
			{Name: "p", TPM: 61_003, RPM: 307, Concurrency: 7, MaxQueue: 9, Burst: 5 * time.Second, TicketWait: time.Second, Accounting: accounting},
			{Name: "q", TPM: 20_011, MaxQueue: 9},
		},
		Tenants: []Tenant{
			{Name: "a", Weight: 1, MaxWait: 10 * time.Second, TPM: 30_001, RPM: 111, Credit: 10 * time.Second},
			{Name: "b", Weight: 3, MaxWait: 3 * time.Second, Floor: 5000, Concurrency: 3},
			{Name: "c", Weight: 0.7, MaxWait: 20 * time.Second, Background: true, Budgets: []Budget{{Unit: UnitTokens, Per: budget.Hour, Limit: 40_000}}},
			{Name: "d", Weight: 1, RPM: 900},
		},
		Clock: clock, Observer: log, Recorded: true,
	}
	g := must(t, cfg)
	t.Cleanup(g.Drain)
	rng := rand.New(rand.NewPCG(seed, 1))
	eyes := rand.New(rand.NewPCG(seed, 2))
	var leases []Lease
	var out []string
	for i := range 600 {
		step := time.Duration(rng.Int64N(int64(200 * time.Millisecond)))
		next := clock.now.Add(step)
		for looked && eyes.IntN(2) == 0 {
			clock.now = clock.now.Add(time.Duration(eyes.Int64N(int64(next.Sub(clock.now)) + 1)))
			g.State()
			g.Standing(string('a'+rune(eyes.IntN(4))), "p")
			g.Explain(Request{Tenant: string('a' + rune(eyes.IntN(4))), Pool: "p", Input: 100, Output: 900})
			if len(leases) > 0 {
				leases[eyes.IntN(len(leases))].Remaining()
			}
		}
		clock.now = next
		g.Throttle("nowhere", nil) // so that those are known who are let go by then
		callers := 3
		if i >= 300 {
			callers = 4 // d has not called before
		}
		if i == 300 {
			cfg.Tenants[3].TPM = 5_003
			testkit.OK(t, g.Apply(cfg))
		}
		switch k := rng.IntN(10); {
		case k < 5:
			req := Request{
				ID: fmt.Sprint(i), Tenant: string('a' + rune(rng.IntN(callers))), Pool: []string{"p", "p", "q"}[rng.IntN(3)],
				Input: rng.Int64N(800), Output: rng.Int64N(900), Stream: rng.IntN(2) == 0,
			}
			g.Ask(req, func(l Lease, rej *Refusal) {
				if rej == nil {
					leases = append(leases, l)
				}
				out = append(out, fmt.Sprint(req.ID, " ", g.line.now.Sub(log.since), " ", l.Waited, " ", rej))
			})
		case k < 9 && len(leases) > 0:
			n := rng.IntN(len(leases))
			if k == 5 {
				leases[n].Progress(rng.Int64N(900))
				break
			}
			leases[n].Settle(Usage{Input: rng.Int64N(800), Output: rng.Int64N(900)})
			leases = slices.Delete(leases, n, n+1)
		case k == 9 && rng.IntN(5) == 0:
			g.Throttle("p", []Cut{{Part: rng.Int64N(Whole), Until: g.line.now.Add(time.Duration(rng.Int64N(int64(5 * time.Second))))}})
		}
	}
	return out
}

// Who looks changes nothing of what is decided.
func TestTimeline_LooksChangeNothing(t *testing.T) {
	for seed := range uint64(testkit.Rounds(5, 40)) {
		want := played(t, seed, false)
		got := played(t, seed, true)
		if len(want) < 100 {
			t.Fatalf("seed %d: only %d decisions", seed, len(want))
		}
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				t.Fatalf("seed %d: decision %d of %d is %s, and %s where somebody looks", seed, i, len(want), want[i], got[i])
			}
		}
	}
}

// The calls of a governor that is recorded are numbered, also if nobody listens: by their numbers they are woken.
func TestTimeline_CallsAreNumbered(t *testing.T) {
	clock := &late{now: time.Unix(1_000_000, 0)}
	g := must(t, Config{Pools: []Pool{{Name: "p", RPM: 1, MaxQueue: 9}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}}, Clock: clock, Recorded: true})
	for range 4 {
		g.Ask(demand("a", 1), func(Lease, *Refusal) {})
	}
	numbers := map[uint64]bool{}
	for f := range g.line.parked {
		numbers[f.number] = true
	}
	if len(numbers) != 3 {
		t.Errorf("three calls wait, with numbers %v", numbers)
	}
	g.Drain()
}
