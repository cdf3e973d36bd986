package escrow

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestBands: the lower the band of a tenant, the more slots its calls leave free. Those of higher bands find them at once, past all that
// wait, also if they may not wait themselves.
func TestBands(t *testing.T) {
	now := t0
	p := New(now, Config{Slots: 20, HoldBack: 200_000, MaxQueue: 100})
	for _, c := range []struct{ below, runs int }{{9, 16}, {5, 17}, {3, 18}, {1, 19}, {0, 20}} {
		leaf := p.Add(Root, Node{Weight: 1, Below: c.below})
		for range 30 {
			wait := time.Duration(0)
			if c.below > 0 && p.InFlight() == int64(c.runs) {
				wait = time.Hour // those that wait keep no higher band out
			}
			p.Offer(now, Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: wait})
			p.Pump(now, nil)
		}
		if n := p.InFlight(); n != int64(c.runs) {
			t.Errorf("with calls %d bands below the highest, %d of 20 slots are in use, want %d", c.below, n, c.runs)
		}
		if a := p.Account(leaf); c.below > 0 && a.Waiting != 0 {
			t.Errorf("calls that are held back are demand: %+v", a)
		}
		testkit.OK(t, p.Check())
	}
	if p.Waiting() == 0 {
		t.Error("nobody waits")
	}
}

// TestBands_Aged: a call of a tenant that has less than its share rises by a band for each quarter of a second that it waits, or faster so that it is in
// the highest after half of its time.
// Pump is to be called then.
func TestBands_Aged(t *testing.T) {
	for _, c := range []struct {
		what          string
		below         int
		maxWait, want time.Duration
	}{
		{"lowest", 9, time.Hour, 2250 * time.Millisecond},
		{"middle", 4, time.Hour, time.Second},
		{"lowest, impatient", 9, 1800 * time.Millisecond, 900 * time.Millisecond},
		{"middle, impatient", 4, 1800 * time.Millisecond, 400 * time.Millisecond},
	} {
		t.Run(c.what, func(t *testing.T) {
			now := t0
			p := New(now, Config{Slots: 20, HoldBack: 50_000, MaxQueue: 100})
			high := p.Add(Root, Node{Weight: 1})
			low := p.Add(Root, Node{Weight: 1, Below: c.below})
			for range 19 {
				p.Offer(now, Call{Leaf: high, Most: Cost{0, 1}})
			}
			h, ans := p.Offer(now, Call{Leaf: low, Most: Cost{0, 1}, MaxWait: c.maxWait})
			if ans.Verdict != Queued {
				t.Fatalf("it is told %+v", ans)
			}
			p.Pump(now, nil)
			for !p.Running(h) {
				at, ok := p.Next()
				if !ok || !at.After(now) || at.Sub(t0) > c.want {
					t.Fatalf("after %v Pump is due at %v, %v", now.Sub(t0), at.Sub(t0), ok)
				}
				now = at
				p.Pump(now, nil)
			}
			if got := now.Sub(t0); got != c.want {
				t.Errorf("it takes the last slot after %v, want %v", got, c.want)
			}
		})
	}
}

// TestBands_PassEachOther: a call that has risen is not blocked by one of the same band that has not, although that one's turn comes
// first: because it came later, or because its tenant has its share.
func TestBands_PassEachOther(t *testing.T) {
	for _, c := range []struct {
		what  string
		holds int           // calls that run of the tenant whose turn comes first
		later time.Duration // by which its call comes after the other
	}{
		{"who came later", 0, time.Second},
		{"who has its share", 4, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			now := t0
			p := New(now, Config{Slots: 12, HoldBack: 500_000, MaxQueue: 100})
			high := p.Add(Root, Node{Weight: 1})
			first := p.Add(Root, Node{Weight: 1, Below: LowestBand})
			risen := p.Add(Root, Node{Weight: 1, Below: LowestBand})
			for range 20 { // so that its turn comes last
				h, _ := p.Offer(now, Call{Leaf: risen, Most: Cost{0, 1}})
				p.Settle(now, h, Cost{0, 1})
			}
			for range c.holds {
				p.Offer(now, Call{Leaf: first, Most: Cost{0, 1}})
			}
			for p.InFlight() < 8 {
				p.Offer(now, Call{Leaf: high, Most: Cost{0, 1}})
			}
			h, _ := p.Offer(now, Call{Leaf: risen, Most: Cost{0, 1}, MaxWait: time.Hour})
			p.Pump(now, nil)
			now = now.Add(c.later)
			p.Offer(now, Call{Leaf: first, Most: Cost{0, 1}, MaxWait: time.Hour})
			p.Pump(now, nil)
			for at, ok := p.Next(); ok && !p.Running(h); at, ok = p.Next() {
				now = at
				p.Pump(now, nil)
			}
			const want = 5 * riseAfter // from there, calls leave three slots of 12 free, and not six
			if got := now.Sub(t0); !p.Running(h) || got != want {
				t.Errorf("after %v it runs: %v; want it to after %v", got, p.Running(h), want)
			}
		})
	}
}

// TestBands_MakesUp: a leaf that let others pass begins where it stood, and not where a newcomer would.
func TestBands_MakesUp(t *testing.T) {
	now := t0
	p := New(now, Config{RPM: 6000, Slots: 10, HoldBack: 500_000, MaxQueue: 10})
	high := p.Add(Root, Node{Weight: 1})
	low := p.Add(Root, Node{Weight: 1, Below: LowestBand})
	var runs []Handle
	for range 5 {
		h, _ := p.Offer(now, Call{Leaf: high, Most: Cost{0, 1}})
		runs = append(runs, h)
	}
	waits, _ := p.Offer(now, Call{Leaf: low, Most: Cost{0, 1}, MaxWait: time.Hour})
	p.Pump(now, nil)
	stood := p.nodes[low].finish
	for range 20 {
		h, _ := p.Offer(now, Call{Leaf: high, Most: Cost{0, 1}})
		p.Settle(now, h, Cost{0, 1})
		p.Pump(now, nil)
	}
	p.Settle(now, runs[0], Cost{0, 1})
	p.Pump(now, nil)
	if moved := p.nodes[low].finish - stood; !p.Running(waits) || moved != p.entries[waits.Slot].virtual {
		t.Errorf("after 20 calls of another leaf it runs: %v, and its tag has moved by %d, want its call's %d", p.Running(waits), moved, p.entries[waits.Slot].virtual)
	}
}

// TestBands_SharedRoom: where slots are shared, a band may have less room here than a lower one. A call that has risen to it may begin in the
// room of its own all the same, and Pump is never due at once again.
func TestBands_SharedRoom(t *testing.T) {
	now := t0
	p := New(now, Config{Slots: 20, HoldBack: 500_000, MaxQueue: 100})
	high := p.Add(Root, Node{Weight: 1})
	low := p.Add(Root, Node{Weight: 1, Below: 9})
	for range 8 {
		p.Offer(now, Call{Leaf: high, Most: Cost{0, 1}})
	}
	room := Room{20}
	for below := 1; below <= LowestBand; below++ {
		room[below] = 5
	}
	p.Bind(0, Bounds{Most: room})
	h, _ := p.Offer(now, Call{Leaf: low, Most: Cost{0, 1}, MaxWait: time.Hour})
	p.Pump(now, nil)
	now = now.Add(time.Second) // it has risen by four
	p.Pump(now, nil)
	room[9] = 10
	p.Bind(0, Bounds{Most: room})
	p.Pump(now, nil)
	if at, ok := p.Next(); ok && !at.After(now) {
		t.Errorf("Pump is due at once again, at %v", at.Sub(now))
	}
	if !p.Running(h) {
		t.Error("a call waits for which its band has room")
	}
}

// TestBands_LongRun: tenants of all bands that wait all along have their shares by weight in the long run, within 3 %.
func TestBands_LongRun(t *testing.T) {
	w := newSim(t, 1, Config{Slots: 20, HoldBack: 200_000})
	for n, below := range []int{0, 5, 9, 9} {
		s := w.leaf(Root, Node{Weight: Weight(1 + n%2), Below: below}, 1)
		s.keep = 80
		s.run = func() time.Duration { return time.Second/2 + time.Duration(w.rng.Int64N(int64(time.Second))) }
	}
	w.run(30 * time.Second)
	w.reset()
	w.run(20 * time.Minute)
	for n, want := range []float64{20. / 6, 40. / 6, 20. / 6, 40. / 6} {
		got := w.sources[n].slots.Seconds() / 1200
		t.Logf("%d: %.3f of %.3f slots", n, got, want)
		if math.Abs(got/want-1) > .03 {
			t.Errorf("tenant %d had %.3f slots, want %.3f", n, got, want)
		}
	}
}

// TestBands_Unused: beside a tenant that uses less than its share, the lowest band has its part of the rest, too. It had 8 % less while its
// calls rose only up to its part of all slots.
func TestBands_Unused(t *testing.T) {
	w := newSim(t, 1, Config{Slots: 20, HoldBack: 300_000})
	high := w.leaf(Root, Node{Weight: 3}, 1)
	low := w.leaf(Root, Node{Weight: 1, Below: LowestBand}, 1)
	small := w.leaf(Root, Node{Weight: 1, Below: 4}, 1)
	high.keep = 60
	low.keep = 60
	small.rate = 1
	for _, s := range w.sources {
		s.run = w.lognormal(time.Second)
	}
	w.run(time.Minute)
	w.reset()
	w.run(20 * time.Minute)
	if got := low.slots.Seconds() / (low.slots + high.slots).Seconds(); math.Abs(got-0.25) > 0.0025 {
		t.Errorf("the lowest band had %.4f of what the small tenant left, want 0.25", got)
	}
}

// TestBands_Burst: while the lowest band fills all slots that it may, a burst of the highest waits for nothing, though it may not wait at
// all, however long those of the lowest have waited.
func TestBands_Burst(t *testing.T) {
	w := newSim(t, 1, Config{Slots: 40, HoldBack: 250_000})
	low := w.leaf(Root, Node{Weight: 1, Below: LowestBand}, 1)
	low.run = w.lognormal(time.Second)
	low.keep = 50
	high := w.leaf(Root, Node{Weight: 1}, 1)
	high.run = func() time.Duration { return 2 * time.Second }
	high.call.MaxWait = time.Nanosecond
	w.run(time.Minute)
	for n := range 10 {
		if ans := w.offer(high); ans.Verdict != Admitted {
			t.Errorf("call %d of a burst is told %+v, and %d of the lowest band run", n, ans, low.open)
		}
	}
}

// stepBands runs a world of sources in these bands for a step, and ends the test if one alone of them begins calls in slots that its band
// keeps out of, and has not risen.
func stepBands(t *testing.T, w *sim, seed uint64, below []int) {
	t.Helper()
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
	// in a step calls end before any begins, so that all who began are among those who run
	if running := w.p.InFlight(); len(began) == 1 && w.sources[began[0]].worst < riseAfter && running > w.p.rules[0].Most[below[began[0]]] {
		t.Fatalf("seed %d: a call %d bands below the highest began, and %d slots are in use", seed, below[began[0]], running)
	}
}

// mayBegin reports whether a call waits that finds a slot.
func mayBegin(w *sim) bool {
	return w.p.Free() && slices.ContainsFunc(w.sources, func(s *source) bool {
		by, calls := w.p.KeptOut(s.leaf)
		return s.waiting > 0 && by == nil && calls == 0
	})
}

// TestBands_Rules: whatever comes, no call begins in slots that its band keeps out of, unless it has risen, and no slot stays free for which
// a call waits that may have it.
func TestBands_Rules(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 23))
		slots := 2 + rng.Int64N(30)
		w := newSim(t, seed, Config{Slots: slots, HoldBack: rng.Int64N(600_000)})
		below := make([]int, 1+rng.IntN(5))
		for i := range below {
			below[i] = rng.IntN(LowestBand + 1)
			s := w.leaf(Root, Node{Weight: Weight(1 + rng.IntN(4)), Below: below[i]}, 1)
			s.run = func() time.Duration { return time.Second/2 + time.Duration(w.rng.Int64N(int64(time.Second/2))) }
			s.rate = float64(slots) / float64(len(below)) * (0.5 + 2*rng.Float64())
		}
		for range 1500 {
			stepBands(t, w, seed, below)
			running := w.p.InFlight()
			top := LowestBand // of those that wait
			for i, s := range w.sources {
				if s.waiting > 0 {
					top = min(top, below[i])
				}
			}
			for i, s := range w.sources {
				if s.waiting > 0 && below[i] == top && running < w.p.rules[0].Most[top] {
					t.Fatalf("seed %d: %d calls %d bands below the highest wait, and %d of %d slots are in use", seed, s.waiting, top, running, slots)
				}
			}
			if mayBegin(w) {
				t.Fatalf("seed %d: a call waits that has risen, and %d of %d slots are in use", seed, running, slots)
			}
		}
		testkit.OK(t, w.p.Check())
	}
}

// TestBands_Aside: calls of a higher band that wait for something else than a slot, because their leaf is restricted or at its soft cap, have
// no lower band take the slots that it leaves free, and keep no new call of their own band out of these.
func TestBands_Aside(t *testing.T) {
	for what, cfg := range map[string]Config{
		"restricted":  {Slots: 10, HoldBack: 500_000, MaxQueue: 100},
		"at soft cap": {Slots: 10, HoldBack: 500_000, MaxQueue: 100, SoftCap: 1},
	} {
		t.Run(what, func(t *testing.T) {
			now := t0
			p := New(now, cfg)
			high := p.Add(Root, Node{Weight: 1, Capped: true})
			low := p.Add(Root, Node{Weight: 1, Below: LowestBand})
			burst := p.Add(Root, Node{Weight: 1})
			offer := func(leaf NodeID, wait time.Duration) Answer {
				_, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: wait})
				p.Pump(now, nil)
				testkit.OK(t, p.Check())
				return ans
			}
			for range 20 { // so that its turn comes last
				h, _ := p.Offer(now, Call{Leaf: burst, Most: Cost{0, 1}})
				p.Settle(now, h, Cost{0, 1})
			}
			offer(high, 0)
			for range 4 {
				offer(low, 0)
			}
			if cfg.SoftCap == 0 {
				p.restrict(high, 0, 1, now.Add(time.Hour))
			}
			offer(high, time.Hour)
			offer(low, time.Hour)
			now = now.Add(time.Minute)
			p.Pump(now, nil)
			if n := p.InFlight(); n != 5 {
				t.Errorf("%d of 10 slots are in use, want 5: the lowest band leaves half of them free", n)
			}
			if ans := offer(burst, 0); ans.Verdict != Admitted {
				t.Errorf("a call of the highest band is told %+v, with %d of 10 slots in use", ans, p.InFlight())
			}
		})
	}
}

// TestBands_Elsewhere: a tenant whose calls come in at several processes has less than its share if it has less than its weight makes of all
// slots in use, or of those in use by who wants more as well.
func TestBands_Elsewhere(t *testing.T) {
	const low, high, small = NodeID(1), NodeID(2), NodeID(3) // of weights 2, 6 and 2
	wanting := map[NodeID]int64{low: 4, high: 14}
	for _, c := range []struct {
		what          string
		wanting       map[NodeID]int64
		running, here int64
		want          bool
	}{
		{"less than its weight makes of 20", wanting, 3, 3, true},
		{"less than a third of what the high one has", wanting, 4, 3, true},
		{"not less", wanting, 5, 3, false},
		{"as much as the high one, by weight", map[NodeID]int64{low: 5, high: 15}, 5, 0, true},
		{"more than the high one, by weight", map[NodeID]int64{low: 6, high: 15}, 6, 0, false},
		{"it did not want more before", map[NodeID]int64{high: 14}, 4, 3, true},
		{"nobody else wants more", map[NodeID]int64{low: 4}, 4, 3, false},
		{"nobody wants more", nil, 4, 3, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			e := Elsewhere{All: 17, Busy: 10, Wanting: c.wanting}
			for i, calls := range c.wanting {
				e.Wants.Calls += calls
				e.Wants.Weight += map[NodeID]Weight{low: 2, high: 6, small: 2}[i]
			}
			if got := e.owes(low, 2, c.running, c.here); got != c.want {
				t.Errorf("with %d calls it has less than its share: %v", c.running, got)
			}
		})
	}
}

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
			high := p.Add(Root, Node{Weight: 1})
			low := p.Add(Root, Node{Weight: 1, Below: LowestBand})
			burst := p.Add(Root, Node{Weight: 1})
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
			p.Update(high, Node{Weight: 1, Below: 3})
			inUse(9, "the priority of those that wait has changed")
		})
	}
}

// TestBands_FullUpstreamSmall: a small call does not pass a large one of its band that waits for the same upstream, although it would fit.
func TestBands_FullUpstreamSmall(t *testing.T) {
	p := New(t0, Config{TPM: 1_000_000, Slots: 10, HoldBack: 500_000, MaxQueue: 100})
	p.SetUpstreams(newOutlets(t, 1000, 10_000), Moved{})
	high := p.Add(Root, Node{Weight: 1})
	low := p.Add(Root, Node{Weight: 1, Below: LowestBand})
	small := p.Add(Root, Node{Weight: 0.001})
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
	if !p.nodes[low].aside {
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
			s := w.leaf(Root, Node{Weight: Weight(1 + rng.IntN(4)), Below: below[i]}, 1)
			s.call.Via = Mask(1 + rng.IntN(7))
			s.run = func() time.Duration { return time.Second/2 + time.Duration(w.rng.Int64N(int64(time.Second/2))) }
			s.rate = float64(slots) / float64(len(below)) * (0.5 + 2*rng.Float64())
		}
		for range 1000 {
			stepBands(t, w, seed, below)
			for _, s := range w.sources {
				if s.waiting == 0 {
					continue
				}
				e := &w.p.entries[w.p.head(s.leaf, true)]
				if _, could := w.p.finds(w.now, e); could {
					t.Fatalf("seed %d: a call %d bands below the highest waits that could begin at %03b, and %d of %d slots are in use", seed, w.p.nodes[s.leaf].claim.Below, e.via, w.p.InFlight(), slots)
				}
			}
		}
		testkit.OK(t, w.p.Check())
	}
}
