package escrow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestSoftCap: up to half of the slots are lent to whoever asks. A claimant beyond that runs as many calls as its cap,
// however often it asks and is refused; slots stay free, and others find them at once.
func TestSoftCap(t *testing.T) {
	for _, c := range []struct {
		what                string
		cap                 int64
		alone, other, later int // calls of the one that asks for all; of another that asks for 8; and of the first when 3 of its own have ended
	}{
		{"cap below half", 300_000, 10, 6, 7},
		{"cap at half", 500_000, 10, 8, 10},
		{"cap above half", 700_000, 14, 6, 14},
		{"no cap", 0, 20, 0, 20},
		{"less than a slot", 1, 10, 1, 9},
	} {
		t.Run(c.what, func(t *testing.T) {
			now := t0
			p := New(now, Config{Slots: 20, SoftCap: c.cap, MaxQueue: 100})
			hog := p.Add(Root, Node{Weight: 1, Capped: true})
			other := p.Add(Root, Node{Weight: 1, Capped: true})
			var runs []Handle
			ask := func(leaf NodeID, times int) (admitted int) {
				for range times {
					h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{0, 1}})
					p.Pump(now, nil)
					if ans.Verdict == Admitted {
						admitted++
						if leaf == hog {
							runs = append(runs, h)
						}
					}
				}
				return admitted
			}
			if ask(hog, 200); len(runs) != c.alone {
				t.Errorf("alone it runs %d calls, want %d", len(runs), c.alone)
			}
			if n := ask(other, 8); n != c.other {
				t.Errorf("another one finds %d slots, want %d", n, c.other)
			}
			for range 3 {
				p.Settle(now, runs[0], Cost{0, 1})
				runs = runs[1:]
			}
			ask(hog, 200)
			testkit.OK(t, p.Check())
			if len(runs) != c.later {
				t.Errorf("once 3 have ended it runs %d calls, want %d", len(runs), c.later)
			}
		})
	}
}

// TestAside: calls that wait at a bound of their own, a soft cap or a restriction, keep nobody else waiting, nor turn anybody away, and are no
// demand. They go once so many of their own have ended that they are below it.
func TestAside(t *testing.T) {
	for what, c := range map[string]struct {
		cap      int64
		restrict int64
		runs     int // calls beyond the bound
	}{
		"soft cap":    {cap: 500_000},
		"restriction": {restrict: 7, runs: 3},
	} {
		t.Run(what, func(t *testing.T) {
			now := t0
			p := New(now, Config{Slots: 20, SoftCap: c.cap, MaxQueue: 100})
			team := p.Add(Root, Node{Weight: 9, Capped: true})
			a := p.Add(team, Node{Weight: 1})
			b := a // at the same bound
			if c.cap > 0 {
				b = p.Add(team, Node{Weight: 1})
			}
			other := p.Add(Root, Node{Weight: 1, Capped: true})
			offer := func(leaf NodeID, wait time.Duration) (Handle, Answer) {
				h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: wait})
				p.Pump(now, nil)
				testkit.OK(t, p.Check())
				return h, ans
			}
			var runs []Handle
			for n := range 10 {
				h, ans := offer([]NodeID{a, b}[n%2], 0)
				if ans.Verdict != Admitted {
					t.Fatalf("with %d of 20 slots in use a call is %v", n, ans.Verdict)
				}
				runs = append(runs, h)
			}
			if c.restrict > 0 {
				p.restrict(a, 0, c.restrict, now.Add(time.Hour))
				if most, running := p.Restriction(&Call{Leaf: a}); most != c.restrict || running != 10 {
					t.Errorf("it may run %d and runs %d, want %d and 10", most, running, c.restrict)
				}
			}
			waits, ans := offer(a, time.Hour)
			if ans.Verdict != Queued {
				t.Fatalf("at its bound, a call is %v", ans.Verdict)
			}
			if d := p.Account(a); d.Waiting != 0 {
				t.Errorf("a call that waits at the bound is demand: %+v", d)
			}
			if _, ans = offer(b, 0); ans.Verdict != TooLong || ans.Wait <= 0 {
				t.Errorf("at the same bound, a call that does not wait is %+v", ans)
			}
			if turned := p.Account(b).Turned; turned != 0 {
				t.Errorf("a call that the bound turned away is demand: %d", turned)
			}
			for range 4 {
				if _, ans = offer(other, 0); ans.Verdict != Admitted {
					t.Errorf("beside it, another's call is %v", ans.Verdict)
				}
			}
			for i := range c.runs + 1 {
				p.Settle(now, runs[i], Cost{0, 1})
				p.Pump(now, nil)
				if p.Running(waits) != (i == c.runs) {
					t.Errorf("when %d of its 10 have ended, that the call that waits runs is %v", i+1, i != c.runs)
				}
			}
			if p.restrict(a, 0, 0, now); c.restrict > 0 {
				if _, ans = offer(a, 0); ans.Verdict != Admitted {
					t.Errorf("without a bound, a call is %v", ans.Verdict)
				}
			}
		})
	}
}

// TestSoftCap_Rules: whatever comes, no call begins beyond the cap while half of the slots are in use, no slot stays
// free that a call below its cap waits for, and nobody waits longer for a slot than calls take to go through it.
func TestSoftCap_Rules(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 19))
		slots := 2 + rng.Int64N(30)
		w := newSim(t, seed, Config{Slots: slots, SoftCap: 50_000 + rng.Int64N(900_000)})
		most := w.p.rules[0].Most[0]
		tenants := 1 + rng.IntN(5)
		for range tenants {
			s := w.leaf(Root, Node{Weight: 1, Capped: true}, 1)
			s.run = func() time.Duration { return time.Second/2 + time.Duration(w.rng.Int64N(int64(time.Second/2))) }
			if rng.IntN(2) == 0 {
				s.keep = 1 + rng.IntN(20)
			} else {
				s.rate = float64(slots) / float64(tenants) * rng.Float64()
			}
		}
		for range 1000 {
			before := make([]int, tenants)
			for i, s := range w.sources {
				before[i] = s.calls
			}
			w.run(w.dt)
			running := w.p.InFlight()
			for i, s := range w.sources {
				// in a step calls end before any begins, so that all who began are among those who run
				if s.calls > before[i] && int64(s.open) > max(most, slots/2) {
					t.Fatalf("seed %d: a tenant runs %d calls of %d, with a cap of %d", seed, s.open, slots, most)
				}
				if s.waiting > 0 && running < slots && (int64(s.open) < most || 2*(running+1) <= slots) {
					t.Fatalf("seed %d: %d wait that run %d, and %d of %d slots are in use, with a cap of %d", seed, s.waiting, s.open, running, slots, most)
				}
				fair := max(1, min(most, slots/int64(tenants)))
				if s.keep == 0 {
					continue
				}
				// each slot of its part frees within a second, and it waits behind its own
				if bound := time.Duration(int64(s.keep)/fair+2)*time.Second + 2*w.dt; s.worst > bound {
					t.Fatalf("seed %d: a call waited %v behind %d of its own, with %d slots for its tenant; want at most %v", seed, s.worst, s.keep, fair, bound)
				}
			}
		}
		testkit.OK(t, w.p.Check())
	}
}

// TestSoftCap_NoCatchingUp: a heavy tenant that was kept at its cap has its share by weight when the cap ends, and no slot for those that
// others had meanwhile.
func TestSoftCap_NoCatchingUp(t *testing.T) {
	cfg := Config{Slots: 20, SoftCap: 500_000, MaxQueue: 1000}
	w := newSim(t, 1, cfg)
	heavy := w.leaf(Root, Node{Weight: 9, Capped: true}, 1)
	light := w.leaf(Root, Node{Weight: 1}, 1)
	for _, s := range w.sources {
		s.run = w.lognormal(time.Second)
		s.keep = 30
	}
	w.run(2 * time.Minute)
	if light.open != 10 {
		t.Fatalf("beside a tenant at its cap of 10 of 20 the other runs %d calls", light.open)
	}
	cfg.SoftCap = 0
	w.p.Configure(w.now, cfg)
	w.run(10 * time.Second)
	w.reset()
	w.run(30 * time.Second)
	near(t, "slots of the light one", light.slots.Seconds()/30, 2, .35)
	if heavy.open == 0 {
		t.Error("the heavy one runs nothing")
	}
}

// TestReserve_BackgroundHasItsShare: interactive calls fill a pool for good, and a background team still has
// its share of the slots. Before, each slot that became free was one of the reserve as long as more than
// the rest was in use, and the team had none.
func TestReserve_BackgroundHasItsShare(t *testing.T) {
	for _, c := range []struct {
		what   string
		keep   int     // interactive calls that wait
		rate   float64 // or come a second, and find a slot at once
		weight Weight
		want   float64 // slots
	}{
		{"interactive calls wait", 20, 0, 4, 20. / 5},
		{"and weigh much", 20, 0, 24, 20. / 25},
		{"they find slots at once", 0, 18.2, 4, 20. / 5},
		{"background weighs more than it may take", 20, 0, 0.111, 16},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newSim(t, 1, Config{Slots: 20, InteractiveReserve: 4})
			chat := w.leaf(Root, Node{Weight: c.weight}, 1)
			batch := w.leaf(Root, Node{Weight: 1}, 1)
			chat.run = w.lognormal(time.Second)
			batch.run = w.lognormal(time.Second)
			batch.call.Background = true
			chat.keep = c.keep
			chat.rate = c.rate
			w.run(30 * time.Second)
			batch.keep = 8
			w.run(time.Minute)
			w.reset()
			w.run(20 * time.Minute)
			got := batch.slots.Seconds() / (20 * 60)
			t.Logf("background had %.2f slots, interactive %.2f", got, chat.slots.Seconds()/(20*60))
			near(t, "background's slots", got, c.want, .03)
		})
	}
}

// TestReserve_BurstsFindSlots: while interactive calls take less than their share, background calls take what
// they leave, but for the reserve: as many calls at once find a slot.
func TestReserve_BurstsFindSlots(t *testing.T) {
	const slots, reserve = 20, 4
	w := newSim(t, 1, Config{Slots: slots, InteractiveReserve: reserve})
	chat := w.leaf(Root, Node{Weight: 1}, 1)
	batch := w.leaf(Root, Node{Weight: 1}, 1)
	batch.call.Background = true
	batch.run = w.lognormal(time.Second)
	batch.keep = 8
	chat.run = func() time.Duration { return 10 * time.Second }
	for range 5 {
		w.offer(chat)
	}
	for range 50 {
		w.run(100 * time.Millisecond)
		if free := slots - int(w.p.InFlight()); free < reserve {
			t.Fatalf("background calls have left %d slots free, beside %d interactive calls", free, chat.open)
		}
	}
	if chat.open+batch.open != slots-reserve {
		t.Errorf("%d and %d calls run, want %d in all", chat.open, batch.open, slots-reserve)
	}
	for n := range reserve {
		if ans := w.offer(chat); ans.Verdict != Admitted {
			t.Errorf("call %d of a burst is told %+v", n, ans)
		}
	}
}

// TestReserve_None: where nothing is reserved, background calls that wait for a slot are demand.
func TestReserve_None(t *testing.T) {
	for _, c := range []struct {
		what   string
		narrow int64
	}{{"all slots in use by background calls", 2}, {"no slot may be used", 0}} {
		start := time.Unix(0, 0)
		p := New(start, Config{Slots: 2, MaxQueue: 10})
		leaf := p.Add(Root, Node{Weight: 1})
		p.Narrow(c.narrow)
		for range c.narrow {
			p.Offer(start, Call{Leaf: leaf, Background: true, Most: Cost{100, 1}})
		}
		p.Offer(start, Call{Leaf: leaf, Background: true, Most: Cost{100, 1}, MaxWait: time.Hour})
		p.Pump(start, nil)
		if p.Waiting() != 1 {
			t.Fatalf("%s: %d wait", c.what, p.Waiting())
		}
		if a := p.Account(leaf); a.Waiting == 0 {
			t.Errorf("%s: a call waits, and is no demand", c.what)
		}
		turned := p.Account(leaf).Turned
		p.Offer(start, Call{Leaf: leaf, Background: true, Most: Cost{100, 1}})
		if p.Account(leaf).Turned == turned {
			t.Errorf("%s: a call is refused, and is no demand", c.what)
		}
		if !p.open {
			t.Errorf("%s: background calls are parked", c.what)
		}
	}
}

// TestReserve_Soon: background calls that waited for slots which other processes were about to give up have their turn when these come, and
// make up for it. Those that waited for reserved slots do not.
func TestReserve_Soon(t *testing.T) {
	for _, c := range []struct {
		what string
		soon int64
		want float64 // slots then
	}{
		{"slots of other processes", 10, 10},
		{"reserved slots", 1, 5},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newSim(t, 1, Config{Slots: 10, InteractiveReserve: 1})
			chat := w.leaf(Root, Node{Weight: 1}, 1)
			batch := w.leaf(Root, Node{Weight: 1}, 1)
			batch.call.Background = true
			w.p.Bind(1, Bounds{Most: Room{10}})
			for _, s := range w.sources {
				s.keep = 20
				s.run = w.lognormal(time.Second)
			}
			w.p.Bind(0, Bounds{Most: Room{1}, Soon: c.soon})
			w.run(time.Minute)
			w.p.Bind(0, Bounds{Most: Room{10}})
			w.run(10 * time.Second)
			w.reset()
			w.run(20 * time.Second)
			got := batch.slots.Seconds() / 20
			t.Logf("background calls had %.2f of 10 slots, interactive ones %.2f", got, chat.slots.Seconds()/20)
			near(t, "background's slots", got, c.want, .1)
		})
	}
}
