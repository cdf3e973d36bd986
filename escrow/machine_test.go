package escrow

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naiveNext is I9's dumb twin of the heap: of all leaves that wait, the one
// with the smallest start tag, found by looking at each.
func naiveNext(p *Pool) (LeafID, bool) {
	best, found := LeafID(0), false
	for i := range p.q.leaves {
		if p.q.leaves[i].queued > 0 && (!found || p.q.less(LeafID(i), best)) {
			best, found = LeafID(i), true
		}
	}
	return best, found
}

// Any sequence of verbs keeps every invariant that a state can show, the heap
// agrees with the naive choice, and when all has ended nothing is held.
func TestInvariantsUnderAnySequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			TPM:        rapid.SampledFrom([]int64{0, 6_000, 600_000}).Draw(t, "tpm"),
			RPM:        rapid.SampledFrom([]int64{0, 60, 10_000}).Draw(t, "rpm"),
			Slots:      rapid.SampledFrom([]int64{0, 1, 5}).Draw(t, "slots"),
			Burst:      time.Duration(rapid.IntRange(0, 60).Draw(t, "burst")) * time.Second,
			Accounting: Accounting(rapid.IntRange(0, 2).Draw(t, "accounting")),
			MaxQueue:   20,
		}
		p := New(t0, cfg)
		for range 4 {
			p.AddLeaf(Weight(rapid.SampledFrom([]int{1, 500, 1000, 7000, int(MaxWeight)}).Draw(t, "weight")))
		}
		now := t0
		queued, running := map[Handle]int64{}, map[Handle]int64{}
		pump := func() {
			if want, ok := naiveNext(p); ok {
				if got, _ := p.q.first(); got != want {
					t.Fatalf("I9: the heap serves leaf %d next, the naive choice is %d", got, want)
				}
			}
			for _, h := range p.Pump(now, nil) {
				if _, ok := queued[h]; !ok {
					t.Fatal("a call was dispatched that did not wait")
				}
				running[h] = queued[h]
				delete(queued, h)
			}
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
		pick := func(m map[Handle]int64) (Handle, bool) {
			// Maps have no order; the smallest handle keeps failures reproducible.
			var best Handle
			found := false
			for h := range m {
				if !found || h.Slot < best.Slot {
					best, found = h, true
				}
			}
			return best, found
		}
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				c := rapid.Int64Range(0, 20_000).Draw(t, "cost")
				leaf := LeafID(rapid.IntRange(0, 3).Draw(t, "leaf"))
				wait := time.Duration(rapid.SampledFrom([]int{0, 1, 600}).Draw(t, "wait")) * time.Second
				switch h, ans := p.Offer(now, leaf, Cost{c, 1}, wait); ans.Verdict {
				case Admitted:
					running[h] = c
				case Queued:
					queued[h] = c
				}
				pump()
			},
			"settle": func(t *rapid.T) {
				h, ok := pick(running)
				if !ok {
					t.Skip()
				}
				delete(running, h)
				if !p.Settle(now, h, Cost{rapid.Int64Range(0, 30_000).Draw(t, "actual"), 1}) {
					t.Fatal("a running call could not be settled")
				}
				pump()
			},
			"produce": func(t *rapid.T) {
				h, ok := pick(running)
				if !ok {
					t.Skip()
				}
				p.Produce(now, h, rapid.Int64Range(0, 30_000).Draw(t, "total"))
				pump()
			},
			"cancel": func(t *rapid.T) {
				h, ok := pick(queued)
				if !ok {
					t.Skip()
				}
				delete(queued, h)
				if !p.Cancel(now, h) {
					t.Fatal("a waiting call could not be cancelled")
				}
				pump()
			},
			"tick": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "dt")))
				pump()
			},
		})
		for h := range running {
			p.Settle(now, h, Cost{})
		}
		for h := range queued {
			p.Cancel(now, h)
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		now = now.Add(3 * Window)
		for k, a := range p.State(now).Axes {
			if a.Used != 0 {
				t.Fatalf("I7: all calls ended long ago, yet %d %v count", a.Used, Axis(k))
			}
		}
		if s := p.State(now); s.Running != 0 || s.Waiting != 0 {
			t.Fatalf("I7: all calls ended, yet %d run and %d wait", s.Running, s.Waiting)
		}
	})
}

// Tags are shifted back before they overflow, and nobody's turn changes by it.
func TestRebaseKeepsTheOrder(t *testing.T) {
	p := New(t0, Config{TPM: 1000, MaxQueue: 100})
	a, b := p.AddLeaf(1), p.AddLeaf(1)
	p.q.virtual = rebaseAt - 1
	p.q.leaves[a].finish, p.q.leaves[b].finish = rebaseAt+5, rebaseAt+3
	p.Offer(t0, a, Cost{1000, 1}, time.Hour)
	p.Offer(t0, b, Cost{1000, 1}, time.Hour)
	if first, _ := p.q.first(); first != b {
		t.Fatalf("leaf %d is first, want %d", first, b)
	}
	p.Pump(t0.Add(Window), nil)
	if p.q.virtual > maxAhead {
		t.Fatalf("virtual time is still at %d", p.q.virtual)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestNoAllocations(t *testing.T) {
	p, leaf := New(t0, Config{TPM: 600_000_000, RPM: 6_000_000, Slots: 10, MaxQueue: 10}), LeafID(0)
	leaf = p.AddLeaf(WeightOne)
	now := t0
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		h, _ := p.Offer(now, leaf, Cost{100, 1}, 0)
		p.Settle(now, h, Cost{50, 1})
	}); n != 0 {
		t.Errorf("offer and settle allocate %v times", n)
	}
}

// BenchmarkDecision is one call from offer to settle, through the queue, with
// so many leaves waiting.
func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(map[int]string{10: "10", 1000: "1k", 100_000: "100k"}[n], func(b *testing.B) {
			p := New(t0, Config{TPM: MaxLimit, MaxQueue: 3 * n})
			now := t0
			for i := range n {
				p.AddLeaf(Weight(1000 + i%7000))
			}
			p.axes[Tokens].pace.level = -1 // so that all wait
			for i := range n {
				p.Offer(now, LeafID(i), Cost{int64(100 + i%900), 1}, time.Hour)
			}
			var out []Handle
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				p.axes[Tokens].pace.level = 1500
				out = p.Pump(now, out[:0])
				for _, h := range out {
					leaf := p.entries[h.Slot].leaf
					p.Settle(now, h, Cost{400, 1})
					p.Offer(now, leaf, Cost{int64(500 + i%900), 1}, time.Hour)
					i++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, i)), "ns/decision")
		})
	}
}

// BenchmarkFastPath is one call that nobody stands before.
func BenchmarkFastPath(b *testing.B) {
	p := New(t0, Config{TPM: MaxLimit, RPM: MaxLimit, Slots: 1000, MaxQueue: 10})
	leaf, now := p.AddLeaf(WeightOne), t0
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		h, _ := p.Offer(now, leaf, Cost{100, 1}, 0)
		p.Settle(now, h, Cost{50, 1})
	}
}
