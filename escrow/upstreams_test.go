package escrow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// outlets are upstreams with rolling limits of tokens, and slots, as simple as they can be. Of those with room the
// first is chosen.
type outlets struct {
	t     testing.TB
	list  []*outlet
	of    map[uint32]taken
	looks int // how often it was asked to choose
	homes map[uint64]int
}

type outlet struct {
	*Ledger
	slots, running, got, calls int64 // no slots: no limit
	log                        []use
}

type taken struct {
	upstream int
	slot     int64
	cost     int64
}

func newOutlets(t testing.TB, limits ...int64) *outlets {
	u := &outlets{t: t, of: map[uint32]taken{}}
	for _, limit := range limits {
		u.list = append(u.list, &outlet{Ledger: NewLedger(t0, limit, 240)})
	}
	return u
}

// Able are those whose limit is a call's cost at least, or, if none is, the largest.
func (u *outlets) Able(among Mask, c Cost) (able Mask) {
	most := int64(-1)
	for i, o := range u.list {
		takes := min(o.Limit(), c[Tokens])
		if among&Mask(0).With(i) == 0 || takes < most {
			continue
		}
		if takes > most {
			able = 0
			most = takes
		}
		able = able.With(i)
	}
	return able
}

func (o *outlet) full() bool { return o.slots > 0 && o.running >= o.slots }

func (u *outlets) Choose(now time.Time, among Mask, c Cost, _ uint64) (int, bool) {
	u.looks++
	for i, o := range u.list {
		o.Advance(now)
		if among&Mask(0).With(i) != 0 && !o.full() && o.Room() >= min(c[Tokens], o.Limit()) {
			return i, true
		}
	}
	return 0, false
}

func (u *outlets) Lack(now time.Time, among Mask, c Cost) (Axis, time.Time) {
	axis := Slots
	first := time.Time{}
	for i, o := range u.list {
		o.Advance(now)
		if among&Mask(0).With(i) == 0 || o.full() {
			continue
		}
		axis = Tokens
		if at, ok := o.FreeAt(min(c[Tokens], o.Limit())); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return axis, first
}

func (u *outlets) Wait(time.Time, Mask, Cost, Cost) time.Duration { return 0 }

func (u *outlets) Begin(now time.Time, slot uint32, upstream int, c Cost) {
	if _, twice := u.of[slot]; twice {
		u.t.Fatalf("call %d begins twice", slot)
	}
	o := u.list[upstream]
	o.Advance(now)
	booked := min(c[Tokens], o.Limit())
	o.Book(booked)
	o.running++
	o.calls++
	u.of[slot] = taken{upstream, o.Slot(), booked}
	if o.full() && o.running > o.slots || o.Room() < 0 {
		u.t.Errorf("upstream %d is beyond its limits: %d run, room %d", upstream, o.running, o.Room())
	}
}

func (u *outlets) End(now time.Time, slot uint32, actual Cost) {
	x := u.of[slot]
	delete(u.of, slot)
	o := u.list[x.upstream]
	o.Advance(now)
	o.Correct(x.slot, actual[Tokens]-x.cost)
	o.running--
	o.got += actual[Tokens]
	o.log = append(o.log, use{now, actual[Tokens]})
}

// rollingMax is the most tokens of calls that took no time in any Window.
func (o *outlet) rollingMax() int64 { return rollingMax(o.log, func(x use) use { return x }) }

// simOf is a simulation of a pool whose limit is the sum of its upstreams', each with a limit of its own.
func simOf(t testing.TB, seed uint64, limits ...int64) (*sim, *outlets) {
	sum := int64(0)
	for _, l := range limits {
		sum += l
	}
	w := newSim(t, seed, Config{TPM: sum, Burst: 10 * time.Second})
	u := newOutlets(t, limits...)
	w.p.SetUpstreams(u, Moved{})
	return w, u
}

// The first upstream is used up before the next is touched, and shares are by weight over both.
func TestUpstreams_FirstTheFirst(t *testing.T) {
	w, u := simOf(t, 1, 200_000, 600_000)
	for _, weight := range []Weight{4, 2, 1} {
		s := w.leaf(Root, Node{Weight: weight}, 700)
		s.keep = 8
		s.call.Via = 3
	}
	w.run(2 * Window)
	w.reset()
	before := [2]int64{u.list[0].got, u.list[1].got}
	w.run(10 * Window)
	if part := float64(u.list[0].got-before[0]) / 2e6; part < 0.99 {
		t.Errorf("%.4f of the first upstream's limit was used, want 0.99 at least", part)
	}
	all := w.sources[0].got + w.sources[1].got + w.sources[2].got
	if part := float64(all) / 8e6; part < 0.99 {
		t.Errorf("%.4f of both limits was used, want 0.99 at least", part)
	}
	for i, share := range []float64{4, 2, 1} {
		if got := float64(w.sources[i].got) / float64(all) * 7 / share; math.Abs(got-1) > 0.005 {
			t.Errorf("tenant %d has %.4f of its share", i, got)
		}
	}
	for i, o := range u.list {
		if most := o.rollingMax(); most > o.Limit() {
			t.Errorf("upstream %d: %d tokens in a rolling minute, of %d", i, most, o.Limit())
		}
	}
}

// A call that may use another upstream than the full one that others wait for goes at once, even if it would not wait,
// and takes nothing of theirs.
func TestUpstreams_Beside(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 10_000_000})
	u := newOutlets(t, 10_000, 10_000)
	w.p.SetUpstreams(u, Moved{})
	first := w.leaf(Root, Node{Weight: 1}, 3_000)
	first.call.Via = 1
	both := w.leaf(Root, Node{Weight: 1}, 1_000)
	both.call.Via = 3
	both.call.MaxWait = -1
	w.now = w.now.Add(10 * time.Minute)
	w.p.Pump(w.now, nil)
	for range 4 {
		w.offer(first)
	}
	if first.calls != 3 || first.waiting != 1 {
		t.Fatalf("%d calls run and %d wait, want 3 and 1", first.calls, first.waiting)
	}
	ans := w.offer(both)
	if ans.Verdict != Admitted || u.list[1].calls != 1 {
		t.Errorf("a call that has room elsewhere: %+v, %d calls there", ans, u.list[1].calls)
	}
	if u.list[0].calls != 3 {
		t.Errorf("it took the room of the one that waits: %d calls there", u.list[0].calls)
	}
	u.list[1].Book(u.list[1].Room())
	if ans = w.offer(both); ans.Verdict == Admitted {
		t.Error("it passed a call that waits, into the room that this waits for")
	}
}

// A large call is not starved by small ones that could use its upstream.
func TestUpstreams_Large(t *testing.T) {
	w, _ := simOf(t, 1, 100_000, 100_000)
	large := w.leaf(Root, Node{Weight: 1}, 60_000)
	large.call.Via = 1
	large.keep = 1
	small := w.leaf(Root, Node{Weight: 1}, 500)
	small.call.Via = 3
	small.keep = 8
	w.run(20 * Window)
	if large.calls < 19 {
		t.Errorf("the large call was served %d times in 20 minutes, want 19 at least", large.calls)
	}
}

// passedOver is a pool of two upstreams. Those who may use the small one were passed over for long, and one of them has not called.
type passedOver struct {
	*sim
	upstreams       *outlets
	old, wide, back *source
}

func longPassedOver(t *testing.T) *passedOver {
	t.Helper()
	w, u := simOf(t, 1, 60_000, 600_000)
	old := w.leaf(Root, Node{Weight: 3}, 500)
	old.call.Via = 1
	old.keep = 8
	wide := w.leaf(Root, Node{Weight: 1}, 500)
	wide.call.Via = 3
	wide.keep = 8
	back := w.leaf(Root, Node{Weight: 1}, 500)
	back.call.Via = 1
	w.run(20 * Window)
	return &passedOver{sim: w, upstreams: u, old: old, wide: wide, back: back}
}

// checkReturn lets who has not called begin, and checks that it gets its share of the small upstream.
func (w *passedOver) checkReturn(t *testing.T) {
	t.Helper()
	w.back.keep = 8
	w.reset()
	w.run(4 * Window)
	want := 60_000. * 4 / 4
	if got := float64(w.back.got); math.Abs(got-want) > 0.1*want {
		t.Errorf("who returned had %v tokens in 4 minutes, want %v", got, want)
	}
}

// Long after others were passed over for lack of an upstream, one that returns to this gets its share of it, and takes
// no more than that from anyone.
func TestUpstreams_Return(t *testing.T) {
	w := longPassedOver(t)
	w.checkReturn(t)
	other := w.leaf(Root, Node{Weight: 1}, 500)
	other.call.Via = 2
	other.keep = 8
	w.reset()
	w.run(4 * Window)
	if got := float64(w.wide.got); math.Abs(got-1.2e6) > 0.1*1.2e6 {
		t.Errorf("beside another one the wide tenant had %v tokens in 4 minutes, want 1.2e6", got)
	}
}

// fair is the weighted max-min fair rate of tenants that may use some upstreams each: all rise together by
// weight, until a set of upstreams is used up by those that may use no others.
func fair(limits []int64, weights []Weight, via []Mask) []float64 {
	rate := make([]float64, len(weights))
	done := make([]bool, len(weights))
	for {
		level := math.Inf(1)
		tight := Mask(0)
		for set := Mask(1); set < 1<<len(limits); set++ {
			left := 0.0
			for i, l := range limits {
				if set&Mask(0).With(i) != 0 {
					left += float64(l)
				}
			}
			rising := 0.0
			for i := range weights {
				switch {
				case via[i]&^set != 0:
				case done[i]:
					left -= rate[i]
				default:
					rising += float64(weights[i])
				}
			}
			if rising > 0 && left/rising < level {
				level = left / rising
				tight = set
			}
		}
		if tight == 0 {
			return rate
		}
		for i := range weights {
			if !done[i] && via[i]&^tight == 0 {
				rate[i] = level * float64(weights[i])
				done[i] = true
			}
		}
	}
}

// Whatever upstreams tenants may use, all get their max-min fair rates, nothing is left over that somebody waits for, and no
// upstream has more than its limit.
func TestUpstreams_Fair(t *testing.T) {
	for seed := range uint64(testkit.Rounds(3, 8)) {
		r := rand.New(rand.NewPCG(seed, 7))
		limits := make([]int64, 1+r.IntN(3))
		for i := range limits {
			limits[i] = 100_000 + r.Int64N(400_000)
		}
		w, u := simOf(t, seed, limits...)
		var weights []Weight
		var via []Mask
		text := fmt.Sprint(limits)
		for range 2 + r.IntN(4) {
			weight := Weight(1000+r.IntN(4000)) / 1000
			mask := Mask(1 + r.IntN(1<<len(limits)-1))
			weights = append(weights, weight)
			via = append(via, mask)
			s := w.leaf(Root, Node{Weight: weight}, 200+r.Int64N(600))
			s.call.Via = mask
			s.keep = 20
			text += fmt.Sprintf(" %v via %b", weight, mask)
		}
		w.run(3 * Window)
		w.reset()
		w.run(8 * Window)
		for i, want := range fair(limits, weights, via) {
			if got := float64(w.sources[i].got) / 8; math.Abs(got-want) > 0.03*want {
				t.Errorf("seed %d: %s: tenant %d had %.0f tokens a minute, want %.0f", seed, text, i, got, want)
			}
		}
		for i, o := range u.list {
			if most := o.rollingMax(); most > o.Limit() {
				t.Errorf("seed %d: upstream %d: %d tokens in a rolling minute, of %d", seed, i, most, o.Limit())
			}
		}
	}
}

// However many wait for a full upstream, Pump looks at one of them.
func TestUpstreams_PumpPassesOver(t *testing.T) {
	p, now := fullUpstreams(t, 2000)
	u := p.upstreams.(*outlets)
	u.looks = 0
	p.Pump(now, nil)
	if u.looks > 2 {
		t.Errorf("Pump looked for room %d times, want once for each of two upstreams", u.looks)
	}
	u.list[1].Ledger = NewLedger(now, 1000, 240)
	u.looks = 0
	if out := p.Pump(now, nil); len(out) != 1 || u.looks > 2 {
		t.Errorf("with room at the other upstream %d calls begin after %d looks", len(out), u.looks)
	}
}

// Through all verbs, in any order, no upstream is beyond its limits, no call is booked twice or lost, and after each Pump
// nobody waits for whom the pool and an upstream have room that no earlier call waits for.
func TestUpstreams_Machine(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		u := newOutlets(t, 20_000, 30_000, 50_000)
		u.list[1].slots = 3
		p := New(t0, Config{TPM: 100_000, Slots: 12, InteractiveReserve: 2, Burst: 10 * time.Second, MaxQueue: 100, TicketWait: time.Second})
		p.SetUpstreams(u, Moved{})
		group := p.Add(Root, Node{Weight: 1})
		leaves := []NodeID{p.Add(group, Node{Weight: 2}), p.Add(group, Node{Weight: 1}), p.Add(Root, Node{Weight: 1.5, Floor: 5000})}
		var running, waiting []Handle
		now := t0
		for range 400 {
			now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
			switch op := r.IntN(10); {
			case op < 5:
				c := Call{Leaf: leaves[r.IntN(3)], Most: Cost{r.Int64N(9_000) * (1 + 7*r.Int64N(6)/5), 1}, Via: Mask(1 + r.IntN(7)), Background: r.IntN(3) == 0, MaxWait: time.Duration(r.IntN(3)) * time.Minute}
				h, ans := p.Offer(now, c)
				switch ans.Verdict {
				case Admitted:
					running = append(running, h)
				case Queued:
					waiting = append(waiting, h)
				}
			case op < 8 && len(running) > 0:
				i := r.IntN(len(running))
				p.Settle(now, running[i], Cost{p.entries[running[i].Slot].cost[Tokens] * r.Int64N(2), 1})
				running = append(running[:i], running[i+1:]...)
			case op == 8 && len(running) > 0:
				h := running[r.IntN(len(running))]
				from := p.entries[h.Slot].upstream
				to, ok := p.Move(now, h, Mask(7)&^Mask(0).With(from), Cost{r.Int64N(100), 1})
				if ok && (to == from || p.entries[h.Slot].upstream != to) {
					t.Fatalf("seed %d: moved from %d to %d", seed, from, to)
				}
			case op == 9 && len(waiting) > 0:
				i := r.IntN(len(waiting))
				p.Cancel(now, waiting[i])
				waiting = append(waiting[:i], waiting[i+1:]...)
			}
			for _, h := range p.Pump(now, nil) {
				running = append(running, h)
				for i := range waiting {
					if waiting[i] == h {
						waiting = append(waiting[:i], waiting[i+1:]...)
						break
					}
				}
			}
			testkit.OK(t, p.Check())
			for _, open := range []bool{false, true} {
				p.over = Mask(r.IntN(8))
				got, _, ok := p.next(open)
				want, has := naiveNext(p, open)
				if ok != has || ok && got != want {
					t.Fatalf("seed %d: I9: past calls for %03b leaf %d is next (%v), the naive choice is %d (%v)", seed, p.over, got, ok, want, has)
				}
				p.over = 0
			}
			if len(u.of) != len(running) {
				t.Fatalf("seed %d: %d calls are booked at upstreams, %d run", seed, len(u.of), len(running))
			}
			for _, h := range running {
				e := p.entries[h.Slot]
				if able := u.Able(7, e.cost); e.via&able != 0 && able.With(e.upstream) != able {
					t.Fatalf("seed %d: a call of %v runs at %d, which never has room for it; it may use %03b", seed, e.cost, e.upstream, e.via)
				}
			}
			for _, leaf := range leaves {
				n := p.nodes[leaf].calls[interactive].head
				if n < 0 {
					continue
				}
				e := p.entries[n]
				if _, fits := p.fits(now, &e); !fits || p.passed == everywhere || e.via&^p.passed == 0 {
					continue
				}
				if _, ok := u.Choose(now, e.via&^p.passed, e.cost, 0); ok {
					t.Fatalf("seed %d: leaf %d waits although an upstream of %03b has room that nobody waits for (%03b)", seed, leaf, e.via, p.passed)
				}
			}
			counted := int64(0)
			for _, v := range p.waitingVia {
				counted += v.calls
			}
			if counted != int64(p.waiting()) {
				t.Fatalf("seed %d: %d calls are counted by upstreams, %d wait", seed, counted, p.waiting())
			}
		}
	}
}

// Home is where a conversation is said to be, and else where its calls go first.
func (u *outlets) Home(_ time.Time, _ Mask, of uint64) int { return u.homes[of] }

// swap puts two upstreams in each other's place.
func (u *outlets) swap(p *Pool) {
	slices.Reverse(u.list)
	for slot, x := range u.of {
		x.upstream = 1 - x.upstream
		u.of[slot] = x
	}
	p.SetUpstreams(u, Moved{To: []int{1, 0}, All: 3})
}

// When upstreams change their places, one that returns to an upstream gets its share of that, as in TestUpstreams_Return: how far the
// calls of each had come is known of the upstream, not of its place.
func TestSetUpstreams_Return(t *testing.T) {
	w := longPassedOver(t)
	w.upstreams.swap(w.p)
	w.old.call.Via = 2
	w.back.call.Via = 2
	w.checkReturn(t)
	testkit.OK(t, w.p.Check())
}

// Values that are kept by upstream follow these.
func TestMoved(t *testing.T) {
	m := Moved{To: []int{2, -1, 0}, All: 0b1111}
	for before, now := range map[Mask]Mask{0: 0b1111, 0b001: 0b100, 0b010: 0b1111, 0b011: 0b100, 0b101: 0b101, 0b1000: 0b1111} {
		if got := m.mask(before); got != now {
			t.Errorf("%b is at %b, want %b", before, got, now)
		}
	}
	if got := inPlace(&m, []int{7, 8, 9}, -1); !slices.Equal(got, []int{9, -1, 7}) {
		t.Errorf("values are %v", got)
	}
	if got := inPlace(&m, []int{7, 8}, -1); !slices.Equal(got, []int{-1, -1, 7}) {
		t.Errorf("values are %v", got)
	}
}

// homely is a pool before two upstreams with a slot each, in which so many calls run, and a leaf of which calls of some conversations wait.
// Conversations 10 and above are at home at the second upstream.
type homely struct {
	*testing.T
	p       *Pool
	running [2]Handle
	calls   []Handle
}

func newHomely(t *testing.T, conversations ...uint64) *homely {
	u := newOutlets(t, 1_000_000, 1_000_000)
	u.homes = map[uint64]int{}
	for _, o := range u.list {
		o.slots = 1
	}
	w := &homely{T: t, p: New(t0, Config{TPM: 2_000_000, Burst: time.Minute, Slots: 10, MaxQueue: 100})}
	w.p.SetUpstreams(u, Moved{})
	leaf := w.p.Add(Root, Node{Weight: 1})
	for i := range w.running {
		w.running[i], _ = w.p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: Mask(0).With(i)})
	}
	for _, of := range conversations {
		if of >= 10 {
			u.homes[of] = 1
		}
		h, ans := w.p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: 3, MaxWait: time.Hour, Conversation: of})
		if ans.Verdict != Queued {
			t.Fatalf("a call is %v", ans.Verdict)
		}
		w.calls = append(w.calls, h)
	}
	return w
}

// free has the call end that runs at an upstream, and returns which of the calls that wait goes there.
func (w *homely) free(upstream int) int {
	w.p.Settle(t0, w.running[upstream], Cost{100, 1})
	goes := w.p.Pump(t0, nil)
	testkit.OK(w, w.p.Check())
	if len(goes) != 1 || w.p.At(goes[0]) != upstream {
		w.Fatalf("%v go when upstream %d is free", goes, upstream)
	}
	w.running[upstream] = goes[0]
	return slices.Index(w.calls, goes[0])
}

// TestHome: of a leaf's calls that wait the first goes that is at home where a slot is free, and the first of all if none is.
func TestHome(t *testing.T) {
	w := newHomely(t, 10, 11, 1, 12, 2)
	for _, step := range []struct{ free, goes int }{{0, 2}, {1, 0}, {0, 4}, {0, 1}, {0, 3}} {
		if got := w.free(step.free); got != step.goes {
			t.Fatalf("when upstream %d is free call %d goes, want %d", step.free, got, step.goes)
		}
	}
}

// TestHome_Bounded: no call is passed by more than a few, nor from far behind, and those of no conversation go in order.
func TestHome_Bounded(t *testing.T) {
	w := newHomely(t, append([]uint64{10, 11}, slices.Repeat([]uint64{1}, 20)...)...)
	var order []int
	for range 12 {
		order = append(order, w.free(0))
	}
	if want := []int{2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 10, 11}; !slices.Equal(order, want) {
		t.Errorf("calls go in the order %v, want %v", order, want)
	}
	w = newHomely(t, append(slices.Repeat([]uint64{10}, homeLook), 1)...)
	if got := w.free(0); got != 0 {
		t.Errorf("behind %d others call %d goes first", homeLook, got)
	}
	w = newHomely(t, 0, 1)
	if got := w.free(0); got != 0 {
		t.Errorf("before a call of no conversation call %d goes", got)
	}
}
