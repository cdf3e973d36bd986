package governor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/internal/testkit"
)

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
		Tenants: []Tenant{{Name: "a", Weight: 1000, MaxWait: 10 * time.Second}, {Name: "b", Weight: 1000, MaxWait: 10 * time.Second}},
		Clock:   clock, Observer: log, Recorded: true,
	})
	t.Cleanup(g.Drain)
	for range 10 {
		g.Ask(Request{Tenant: "a", Pool: "p"}, func(Lease, *Rejection) {})
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
			g.Ask(Request{Tenant: "a", Pool: "p"}, func(Lease, *Rejection) {})
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
		g.Ask(Request{Tenant: "b", Pool: "p"}, func(Lease, *Rejection) {})
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
		leave = append(leave, g.Ask(Request{Tenant: "b", Pool: "p"}, func(_ Lease, rej *Rejection) {
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
	if _, rej := Rejected(g.Acquire(context.Background(), Request{Tenant: "a", Pool: "p"})); rej == nil || rej.Reason != ReasonDraining {
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
	g := must(t, Config{
		Pools: []Pool{
			{Name: "p", TPM: 61_003, RPM: 307, Concurrency: 7, MaxQueue: 9, Burst: 5 * time.Second, TicketWait: time.Second, Accounting: accounting},
			{Name: "q", TPM: 20_011, MaxQueue: 9},
		},
		Tenants: []Tenant{
			{Name: "a", Weight: 1000, MaxWait: 10 * time.Second, TPM: 30_001, RPM: 111, Credit: 10 * time.Second},
			{Name: "b", Weight: 3000, MaxWait: 3 * time.Second, Floor: 5000, Concurrency: 3},
			{Name: "c", Weight: 700, MaxWait: 20 * time.Second, Background: true, Budgets: []Budget{{Unit: UnitTokens, Per: budget.Hour, Limit: 40_000}}},
		},
		Clock: clock, Observer: log, Recorded: true,
	})
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
			g.Standing("a", "p")
			g.Explain(Request{Tenant: string('a' + rune(eyes.IntN(3))), Pool: "p", Input: 100, Output: 900})
			if len(leases) > 0 {
				leases[eyes.IntN(len(leases))].Remaining()
			}
		}
		clock.now = next
		g.Throttle("nowhere", nil) // so that those are known who are let go by then
		switch k := rng.IntN(10); {
		case k < 5:
			req := Request{
				ID: fmt.Sprint(i), Tenant: string('a' + rune(rng.IntN(3))), Pool: []string{"p", "p", "q"}[rng.IntN(3)],
				Input: rng.Int64N(800), Output: rng.Int64N(900), Stream: rng.IntN(2) == 0,
			}
			g.Ask(req, func(l Lease, rej *Rejection) {
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
