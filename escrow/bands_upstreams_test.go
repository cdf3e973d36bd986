package escrow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// TestBands_FullUpstream: calls of a higher band that wait for a full upstream would not take the next slot. So no lower band takes the slots
// that it leaves free, new calls of the higher band find these at another upstream, and those that wait begin once theirs has room.
func TestBands_FullUpstream(t *testing.T) {
	for what, lowFirst := range map[string]bool{"the lower band's turn comes first": true, "it comes last": false} {
		t.Run(what, func(t *testing.T) {
			now := t0
			p := New(now, Config{Slots: 10, HoldBack: 500_000, MaxQueue: 100})
			u := newOutlets(t, 1000, 1000)
			u.list[0].slots = 2
			p.SetUpstreams(u, Moved{})
			high := p.Add(Root, Node{Weight: WeightOne})
			low := p.Add(Root, Node{Weight: WeightOne, Below: LowestBand})
			burst := p.Add(Root, Node{Weight: WeightOne})
			runs := map[NodeID][]Handle{}
			offer := func(leaf NodeID, via Mask, wait time.Duration) Answer {
				h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: wait, Via: via})
				p.Pump(now, nil)
				runs[leaf] = append(runs[leaf], h)
				return ans
			}
			inUse := func(want int64, when string) {
				t.Helper()
				now = now.Add(time.Minute)
				p.Pump(now, nil)
				if n := p.InFlight(); n != want {
					t.Errorf("%s: %d of 10 slots are in use, want %d", when, n, want)
				}
				testkit.OK(t, p.Check())
			}
			last := low
			if lowFirst {
				last = high
			}
			for range 20 {
				h, _ := p.Offer(now, Call{Leaf: last, Most: Cost{0, 1}, Via: 2})
				p.Settle(now, h, Cost{0, 1})
			}
			for range 3 {
				offer(low, 2, 0)
			}
			for range 8 {
				offer(high, 1, time.Hour)
			}
			offer(low, 2, time.Hour)
			inUse(5, "the lowest band leaves half of them free")
			if ans := offer(burst, 2, 0); ans.Verdict != Admitted {
				t.Errorf("a call of the highest band is told %+v", ans)
			}
			p.Settle(now, runs[high][0], Cost{0, 1})
			inUse(6, "one of those that waited has begun")
			for range 4 {
				offer(burst, 2, 0)
			}
			inUse(10, "a burst has come")
			p.Settle(now, runs[burst][0], Cost{0, 1})
			inUse(9, "a call of the burst has ended")
			p.Update(high, Node{Weight: WeightOne, Below: 3})
			inUse(9, "the priority of those that wait has changed")
		})
	}
}

// TestBands_FullUpstreamSmall: a small call does not pass a large one of its band that waits for the same upstream, although it would fit.
func TestBands_FullUpstreamSmall(t *testing.T) {
	p := New(t0, Config{TPM: 1_000_000, Slots: 10, HoldBack: 500_000, MaxQueue: 100})
	p.SetUpstreams(newOutlets(t, 1000, 10_000), Moved{})
	high := p.Add(Root, Node{Weight: WeightOne})
	low := p.Add(Root, Node{Weight: WeightOne, Below: LowestBand})
	small := p.Add(Root, Node{Weight: 1})
	offer := func(leaf NodeID, via Mask, cost int64, wait time.Duration) Verdict {
		_, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{cost, 1}, MaxWait: wait, Via: via})
		p.Pump(t0, nil)
		return ans.Verdict
	}
	offer(small, 2, 2000, 0) // so that its turn comes last
	for range 3 {
		offer(low, 2, 300, 0)
	}
	offer(high, 1, 600, 0)
	offer(high, 1, 600, time.Hour)
	offer(low, 2, 300, time.Hour)
	if !p.yielding {
		t.Fatal("no call is held back")
	}
	if got := offer(small, 1, 100, 0); got != TooLong {
		t.Errorf("a small call at the upstream for which a large one waits is told %v", got)
	}
	if got := offer(small, 3, 100, 0); got != Admitted {
		t.Errorf("a small call that finds room at another upstream is told %v", got)
	}
}

// TestBands_UpstreamRules: whatever comes, no call begins in slots that its band keeps out of, unless it has risen, and none waits that could
// begin at one of its upstreams.
func TestBands_UpstreamRules(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 29))
		slots := 4 + rng.Int64N(20)
		w := newSim(t, seed, Config{Slots: slots, HoldBack: 100_000 + rng.Int64N(500_000)})
		u := newOutlets(t, 1_000_000, 1_000_000, 1_000_000)
		for _, o := range u.list {
			o.slots = 1 + rng.Int64N(slots)
		}
		w.p.SetUpstreams(u, Moved{})
		below := make([]int, 2+rng.IntN(4))
		for i := range below {
			below[i] = rng.IntN(LowestBand + 1)
			s := w.leaf(Root, Node{Weight: Weight(1+rng.IntN(4)) * WeightOne, Below: below[i]}, 1)
			s.call.Via = Mask(1 + rng.IntN(7))
			s.run = func() time.Duration { return time.Second/2 + time.Duration(w.rng.Int64N(int64(time.Second/2))) }
			s.rate = float64(slots) / float64(len(below)) * (0.5 + 2*rng.Float64())
		}
		for range 1000 {
			before := make([]int, len(below))
			for i, s := range w.sources {
				before[i] = s.calls
				s.worst = 0
			}
			w.run(w.dt)
			var began []int
			for i, s := range w.sources {
				if s.calls > before[i] {
					began = append(began, i)
				}
			}
			running := w.p.InFlight()
			if len(began) == 1 && w.sources[began[0]].worst < riseAfter && running > w.p.room[below[began[0]]] {
				t.Fatalf("seed %d: a call %d bands below the highest began, and %d of %d slots are in use", seed, below[began[0]], running, slots)
			}
			for _, s := range w.sources {
				if s.waiting == 0 {
					continue
				}
				e := &w.p.entries[w.p.head(s.leaf, true)]
				if _, could := w.p.finds(w.now, e); could {
					t.Fatalf("seed %d: a call %d bands below the highest waits that could begin at %03b, and %d of %d slots are in use", seed, w.p.nodes[s.leaf].claim.Below, e.via, running, slots)
				}
			}
		}
		testkit.OK(t, w.p.Check())
	}
}
