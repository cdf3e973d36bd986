package escrow

import (
	"testing"
	"time"
)

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
		{"interactive calls wait", 20, 0, 4 * WeightOne, 20. / 5},
		{"and weigh much", 20, 0, 24 * WeightOne, 20. / 25},
		{"they find slots at once", 0, 18.2, 4 * WeightOne, 20. / 5},
		{"background weighs more than it may take", 20, 0, WeightOne / 9, 16},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newSim(t, 1, Config{Slots: 20, InteractiveReserve: 4})
			chat := w.leaf(Root, Node{Weight: c.weight}, 1)
			batch := w.leaf(Root, Node{Weight: WeightOne}, 1)
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
	chat := w.leaf(Root, Node{Weight: WeightOne}, 1)
	batch := w.leaf(Root, Node{Weight: WeightOne}, 1)
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
		leaf := p.Add(Root, Node{Weight: WeightOne})
		p.Narrow(c.narrow, BackgroundSlots{Most: c.narrow})
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
			w := newSim(t, 1, Config{Slots: 10})
			chat := w.leaf(Root, Node{Weight: WeightOne}, 1)
			batch := w.leaf(Root, Node{Weight: WeightOne}, 1)
			batch.call.Background = true
			for _, s := range w.sources {
				s.keep = 20
				s.run = w.lognormal(time.Second)
			}
			w.p.Narrow(10, BackgroundSlots{Most: 1, Soon: c.soon})
			w.run(time.Minute)
			w.p.Narrow(10, BackgroundSlots{Most: 10, Soon: 10})
			w.run(10 * time.Second)
			w.reset()
			w.run(20 * time.Second)
			got := batch.slots.Seconds() / 20
			t.Logf("background calls had %.2f of 10 slots, interactive ones %.2f", got, chat.slots.Seconds()/20)
			near(t, "background's slots", got, c.want, .1)
		})
	}
}
