package escrow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
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
			hog := p.Add(Root, Node{Weight: WeightOne, Capped: true})
			other := p.Add(Root, Node{Weight: WeightOne, Capped: true})
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

// TestSoftCap_HeadOfQueue: calls that wait at their soft cap keep nobody else waiting, nor turn anybody away, and are no demand.
func TestSoftCap_HeadOfQueue(t *testing.T) {
	now := t0
	p := New(now, Config{Slots: 20, SoftCap: 500_000, MaxQueue: 100})
	team := p.Add(Root, Node{Weight: WeightOne, Capped: true})
	a := p.Add(team, Node{Weight: WeightOne})
	b := p.Add(team, Node{Weight: WeightOne})
	other := p.Add(Root, Node{Weight: WeightOne, Capped: true})
	offer := func(leaf NodeID, wait time.Duration) (Handle, Verdict) {
		h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: wait})
		p.Pump(now, nil)
		return h, ans.Verdict
	}
	var first Handle
	for n := range 10 {
		h, v := offer([]NodeID{a, b}[n%2], 0)
		if v != Admitted {
			t.Fatalf("with %d of 20 slots in use a call is %v", n, v)
		}
		first = h
	}
	waits, v := offer(a, time.Hour)
	if v != Queued {
		t.Fatalf("beyond the cap, a call is %v", v)
	}
	if d := p.Account(a); d.Waiting != 0 {
		t.Errorf("a call that waits at the cap is demand: %+v", d)
	}
	if _, v = offer(other, 0); v != Admitted {
		t.Errorf("beside a call that waits at its cap, another tenant's is %v", v)
	}
	if _, v = offer(b, 0); v != TooLong {
		t.Errorf("a call of another team at the same cap is %v", v)
	}
	if turned := p.Account(b).Turned; turned != 0 {
		t.Errorf("a call that the cap turned away is demand: %d", turned)
	}
	p.Settle(now, first, Cost{0, 1})
	p.Pump(now, nil)
	if !p.Running(waits) {
		t.Error("when one of its own has ended, the call that waits does not go")
	}
}

// TestSoftCap_Rules: whatever comes, no call begins beyond the cap while half of the slots are in use, no slot stays
// free that a call below its cap waits for, and nobody waits longer for a slot than calls take to go through it.
func TestSoftCap_Rules(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 19))
		slots := 2 + rng.Int64N(30)
		w := newSim(t, seed, Config{Slots: slots, SoftCap: 50_000 + rng.Int64N(900_000)})
		most := w.p.capSlots(Root)
		tenants := 1 + rng.IntN(5)
		for range tenants {
			s := w.leaf(Root, Node{Weight: WeightOne, Capped: true}, 1)
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
	heavy := w.leaf(Root, Node{Weight: 9 * WeightOne, Capped: true}, 1)
	light := w.leaf(Root, Node{Weight: WeightOne}, 1)
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
