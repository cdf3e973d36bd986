package escrow

import (
	"testing"
	"time"
)

// A pool narrowed below what runs dispatches nothing until fewer run, goes on when it is
// widened, keeps its shares and charges meanwhile, and lets background calls begin while as few
// run as it is told. Mutations seen: charges by the narrowed number (a call's cost moves); the
// reserve of the configuration (no background call ever goes).
func TestNarrow(t *testing.T) {
	now := t0
	p := New(now, Config{Slots: 8, InteractiveReserve: 4, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: WeightOne})
	offer := func(background bool) (Handle, Verdict) {
		h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: time.Minute, Background: background})
		return h, ans.Verdict
	}
	var runs []Handle
	for range 6 {
		h, v := offer(false)
		if v != Admitted {
			t.Fatalf("with %d of 8 running a call is %v", len(runs), v)
		}
		runs = append(runs, h)
	}
	moved := p.nodes[leaf].finish
	p.Narrow(4, BackgroundSlots{Most: 2, Free: 2})
	if got := p.State(now).Slots; got != 4 {
		t.Fatalf("State has %d slots, want 4", got)
	}
	if p.HasSlot(leaf, false) {
		t.Fatal("a pool narrowed to 4 has a slot beside 6")
	}
	waits, v := offer(false)
	if v != Queued {
		t.Fatalf("with 6 of 4 running a call is %v", v)
	}
	for i, want := range []int{0, 0, 1} { // 5, 4 and 3 run
		p.Settle(now, runs[i], Cost{0, 1})
		if out := p.Pump(now, nil); len(out) != want {
			t.Fatalf("with %d left of 4 %d calls go, want %d", 5-i, len(out), want)
		}
	}
	if !p.Running(waits) {
		t.Fatal("another call went than the one that waited")
	}
	behind, _ := offer(false)
	p.Narrow(5, BackgroundSlots{Most: 3, Free: 2})
	if out := p.Pump(now, nil); len(out) != 1 || out[0] != behind {
		t.Fatalf("when it is widened %v goes, want %v", out, behind)
	}
	for _, h := range append(runs[3:], waits, behind) {
		p.Settle(now, h, Cost{0, 1})
	}

	p.Narrow(4, BackgroundSlots{Most: 2, Free: 2})
	for n, want := range []Verdict{Admitted, Admitted, Queued} {
		if _, v := offer(true); v != want {
			t.Errorf("with %d of 4 running a background call is %v, want %v", n, v, want)
		}
	}
	if p.Configure(now, Config{Slots: 8, MaxQueue: 10}); p.State(now).Slots != 8 {
		t.Error("Configure has left it narrowed")
	}

	if p.Narrow(0, BackgroundSlots{}); p.HasSlot(leaf, false) || p.HasSlot(leaf, true) {
		t.Error("a pool narrowed to nothing has a slot")
	}

	q := New(now, Config{Slots: 8, MaxQueue: 10})
	q.Narrow(1, BackgroundSlots{Most: 1, Free: 0})
	other := q.Add(Root, Node{Weight: WeightOne})
	for range 6 {
		q.Force(now, Call{Leaf: other, Most: Cost{0, 1}}, true)
	}
	if q.nodes[other].finish != moved {
		t.Errorf("six calls move the tag by %d in a narrowed pool, and by %d else", q.nodes[other].finish, moved)
	}
}
