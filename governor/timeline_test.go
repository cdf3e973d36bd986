package governor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
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
	if _, rej := g.Acquire(context.Background(), Request{Tenant: "a", Pool: "p"}); rej == nil || rej.Reason != ReasonDraining {
		t.Errorf("after a drain a call gets %v", rej)
	}
}
