package escrow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Who is far ahead of its share by its floor does not carry virtual time away: a
// tenant that returns is served beside those who wait, not after they have caught
// up.
//
// Catches: virtual time moved to the tag of a call that went for its floor.
func TestI4_ReturnBesideAFloor(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000})
	floored := w.leaf(Root, Node{Weight: 0.1, Floor: 300_000}, 1000)
	busy := w.leaf(Root, Node{Weight: 1}, 1000)
	back := w.leaf(Root, Node{Weight: 1}, 1000)
	floored.keep = 8
	busy.keep = 8
	w.run(5 * time.Minute)
	back.keep = 8
	from := w.now
	r := perMinute(w, floored, busy, back)
	if first := back.first.Sub(from); back.calls == 0 || first > time.Second {
		t.Errorf("I4: beside a floor the returning tenant was served after %v", first)
	}
	near(t, "the floor", r[0], 300_000, .02)
	near(t, "who was there", r[1], 150_000, .02)
	near(t, "who returned", r[2], 150_000, .02)
}

// A floor is for what calls take, not for what they declare.
//
// Catches: floors paid by the estimate and never corrected.
func TestFloorIsPaidByWhatCallsTake(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000})
	liar := w.leaf(Root, Node{Weight: 1, Floor: 100_000}, 100)
	liar.took = func(int64) int64 { return 1000 }
	other := w.leaf(Root, Node{Weight: 9}, 1000)
	liar.keep = 8
	other.keep = 8
	w.run(time.Minute)
	r := perMinute(w, liar, other)
	near(t, "who declares a tenth", r[0], 100_000, .05)
	near(t, "the other", r[1], 498_000, .03)
}

// A floor of a sixth of the tokens is a sixth of the requests as well.
//
// Catches: floors paid in tokens where requests are what is short; a virtual cost that adds up
// axes.
func TestFloorWhereRequestsAreShort(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000, RPM: 600})
	floored := w.leaf(Root, Node{Weight: 1, Floor: 100_000}, 100)
	other := w.leaf(Root, Node{Weight: 9}, 100)
	floored.keep = 8
	other.keep = 8
	w.run(time.Minute)
	r := perMinute(w, floored, other)
	near(t, "the floor", r[0], 10_000, .05)
	near(t, "the other", r[1], 50_000, .05)
}

// Background calls leave the reserved slots free, interactive ones never wait for
// them, and what was parked at the reserve takes nothing from others when slots
// open: it is served by weight from then on.
//
// Catches: a reserve off by one; background calls at the reserve that stand before interactive
// ones; a parked node that keeps its old tag.
func TestParkedBackgroundDoesNotCatchUp(t *testing.T) {
	const slots, reserve = 6, 3
	w := newSim(t, 1, Config{TPM: 600_000, Slots: slots, InteractiveReserve: reserve})
	a := w.leaf(Root, Node{Weight: 1}, 20)
	b := w.leaf(Root, Node{Weight: 1}, 20)
	b.call.Background = true
	b.keep, b.run = 4, w.lognormal(time.Second)
	for range 100 {
		w.run(100 * time.Millisecond)
		if b.open > slots-reserve {
			t.Fatalf("%d background calls run", b.open)
		}
	}
	for range reserve {
		if ans := w.offer(a); ans.Verdict != Admitted {
			t.Fatalf("with the reserve free, and %d background calls waiting, an interactive one was told %+v", b.waiting, ans)
		}
	}
	a.keep, a.run = 4, w.lognormal(time.Second)
	w.run(10 * time.Minute)

	// From here on slots are plenty, and tokens short.
	a.cost = 5000
	a.run = nil
	b.cost = 5000
	b.run = nil
	w.run(10 * time.Second)
	w.reset()
	w.run(time.Minute)
	if r := float64(b.got) / float64(a.got); r > 1.1 {
		t.Errorf("in the minute after it was parked, background had %.2f of the interactive tenant's", r)
	}
}

// A tag far from virtual time does not wrap when its weight changes by the whole
// range.
//
// Catches: scaling a tag without a bound.
func TestWeightsOfTheWholeRange(t *testing.T) {
	p := New(t0, Config{TPM: 1000, MaxQueue: 10})
	i := p.Add(Root, Node{Weight: 1})
	for _, tag := range []int64{maxAhead, -maxAhead} {
		p.nodes[Root].virtual = rebaseAt - 1
		p.nodes[i].finish = p.nodes[Root].virtual + tag
		p.Update(i, Node{Weight: 0.001})
		if d := p.nodes[i].finish - p.nodes[Root].virtual; (d > 0) != (tag > 0) || d > maxAhead || d < -maxAhead {
			t.Errorf("a tag %d from virtual time is %d from it under a smaller weight", tag, d)
		}
		p.Update(i, Node{Weight: 1})
	}
}

// 10⁵ tenants come, call, and go, while others never rest: what the pool holds
// stays bounded, none is kept from going for long, and none that owes goes.
//
// Catches: nodes not used again; a child of an organisation where nobody else is that can never
// go.
func TestNodesComeAndGo(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000_000, MaxQueue: 1000})
	busy := w.leaf(Root, Node{Weight: 1}, 100_000)
	busy.keep = 20
	w.run(time.Second)
	org := w.p.Add(Root, Node{Weight: 1})
	var there []NodeID
	for k := range 100_000 {
		parent := Root
		if k%2 == 0 {
			parent = org
		}
		i := w.p.Add(parent, Node{Weight: 1})
		switch h, ans := w.p.Offer(w.now, Call{Leaf: i, Most: Cost{100, 1}, MaxWait: time.Minute}); ans.Verdict {
		case Admitted:
			w.p.Settle(w.now, h, Cost{100, 1})
		case Queued:
			w.of[h] = waiter{&source{leaf: i, cost: 100}, w.now}
		}
		w.pump()
		there = append(there, i)
		if k%100 == 0 {
			w.run(w.dt)
			left := there[:0]
			for _, i := range there {
				if !w.p.Remove(w.now, i) {
					left = append(left, i)
				}
			}
			there = left
		}
	}
	w.run(10 * time.Second)
	stuck := 0
	for _, i := range there {
		if !w.p.Remove(w.now, i) {
			stuck++
		}
	}
	if stuck > 0 {
		t.Errorf("%d of those who came cannot go", stuck)
	}
	if !w.p.Remove(w.now, org) {
		t.Error("the organisation cannot go")
	}
	if n, e := len(w.p.nodes), len(w.p.entries); n > 1000 || e > 2000 {
		t.Errorf("the pool holds %d nodes and %d entries", n, e)
	}
}

// A node whose last child went is a leaf again.
//
// Catches: an inner node without children that takes calls nobody finds.
func TestLastChildGoes(t *testing.T) {
	p := New(t0, Config{TPM: 600_000, MaxQueue: 10})
	org := p.Add(Root, Node{Weight: 1})
	if team := p.Add(org, Node{Weight: 1}); !p.Remove(t0, team) {
		t.Fatal("an idle leaf cannot go")
	}
	p.Offer(t0, Call{Leaf: org, Most: Cost{10_000, 1}})
	p.Offer(t0, Call{Leaf: org, Most: Cost{1000, 1}, MaxWait: time.Hour})
	if out := p.Pump(t0.Add(10*time.Second), nil); len(out) != 1 {
		t.Fatalf("%d calls of what is a leaf again were dispatched", len(out))
	}
	testkit.OK(t, p.Check())
}

// A kept place of a call that takes nothing keeps its node.
//
// Catches: kept places told by their cost alone.
func TestFreeTicketKeepsItsNode(t *testing.T) {
	p := New(t0, Config{TPM: 6000, MaxQueue: 10, TicketWait: 10 * time.Second})
	a := p.Add(Root, Node{Weight: 1})
	b := p.Add(Root, Node{Weight: 1})
	p.Offer(t0, Call{Leaf: b, Most: Cost{1000, 1}, MaxWait: time.Hour})
	p.Pump(t0, nil)
	if _, ans := p.Offer(t0, Call{Leaf: a, Most: Cost{0, 1}}); !ans.Ticket {
		t.Skipf("no place is kept: %+v", ans)
	}
	if p.Remove(t0, a) {
		t.Fatal("a node went that has a kept place")
	}
}

// Time that runs backwards costs nobody anything.
//
// Catches: the run of a call that ended before it began.
func TestTimeRunsBack(t *testing.T) {
	p := New(t0, Config{TPM: 600_000, RPM: 600, Slots: 4, MaxQueue: 10, TicketWait: time.Second})
	a := p.Add(Root, Node{Weight: 1})
	h, _ := p.Offer(t0.Add(time.Minute), Call{Leaf: a, Most: Cost{600, 1}})
	p.Progress(t0, h, Progress{Taken: 10, Expect: 20, Run: time.Second})
	p.Settle(t0, h, Cost{600, 1})
	if got := p.nodes[a].finish; got > 2*tagUnit/600 {
		t.Errorf("a call of a 600th of a minute moved the tag by %.4f minutes", float64(got)/float64(tagUnit))
	}
	p.Offer(t0.Add(-time.Hour), Call{Leaf: a, Most: Cost{600, 1}})
	p.Pump(t0.Add(-time.Hour), nil)
	if p.meanRun < 0 {
		t.Errorf("calls ran for %v", p.meanRun)
	}
	testkit.OK(t, p.Check())
}

// Who is refused because the queue is full is told when its turn would come.
//
// Catches: no prediction where the whole queue would be served in time.
func TestFullQueueTellsATime(t *testing.T) {
	p := New(t0, Config{TPM: 600_000, MaxQueue: 4})
	a := p.Add(Root, Node{Weight: 1})
	for range 8 {
		_, ans := p.Offer(t0, Call{Leaf: a, Most: Cost{9000, 1}, MaxWait: time.Hour})
		if (ans.Verdict == LeafFull || ans.Verdict == PoolFull) && ans.Wait < 2*time.Second {
			t.Fatalf("two calls of 0.9 s each wait, and a third was told %+v", ans)
		}
	}
}

// Tags that are cut when tags are shifted back are equal then, and in order still.
//
// Catches: a shift that leaves the heap as it was.
func TestRebaseOfTagsFarBack(t *testing.T) {
	p := New(t0, Config{TPM: 1000, MaxQueue: 100})
	for k := range 12 {
		p.Add(Root, Node{Weight: Weight(12-k) / 1000})
	}
	p.axes[Tokens].pace.level = -1
	for i := NodeID(12); i > 0; i-- {
		p.nodes[i].finish = -rebaseAt + int64(12-i)
		p.nodes[Root].virtual = p.nodes[i].finish
		p.Offer(t0, Call{Leaf: i, Most: Cost{100, 1}, MaxWait: 100 * time.Hour})
	}
	p.nodes[Root].virtual = rebaseAt + 1
	p.rebase(Root)
	testkit.OK(t, p.Check())
}

// freeAt is when a call fits: not before, and not much later.
//
// Catches: a wait for room for all of a call at once; one slot early.
func TestCalendarFreeAt(t *testing.T) {
	late := 0
	waited := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := newCalendar(t0, 50)
		now := t0
		for range 60 {
			now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
			c.advance(now)
			once := r.Int64N(2000)
			rest := r.Int64N(20_000)
			pace := 1 + r.Int64N(900)
			if c.fits(now, once, rest, pace) {
				c.ledger.Book(once)
				c.lay(now, rest, pace)
			}
		}
		once := r.Int64N(2000)
		rest := r.Int64N(20_000)
		pace := 1 + r.Int64N(900)
		at := c.freeAt(once, rest, pace)
		if at.After(now) {
			waited++
		}
		for !c.fits(now, once, rest, pace) {
			now = now.Add(Window / calendarSlots)
			c.advance(now)
			if now.After(at.Add(Window)) {
				t.Fatalf("seed %d: told %v, and it does not fit a minute later", seed, at.Sub(t0))
			}
		}
		first := c.ledger.startOf(c.ledger.cur)
		if at.Before(first) {
			t.Errorf("seed %d: told %v, it fits at %v", seed, at.Sub(t0), first.Sub(t0))
		}
		if at.After(first.Add(Window / calendarSlots)) {
			late++
		}
	}
	if late > 0 || waited < 100 {
		t.Errorf("of %d that had to wait %d were told to wait longer than they must", waited, late)
	}
}

// However small its weight, and whatever floors and background calls there are
// beside it, each call is dispatched.
//
// Catches: no least share of background calls; floors that count tokens only.
func TestI5_NobodyStarves(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000, RPM: 600, Slots: 50, InteractiveReserve: 5})
	w.dt = 20 * time.Millisecond
	for i, n := range []Node{{Weight: 1}, {Weight: 0.5}, {Weight: 5}, {Weight: 1, Floor: 200_000}, {Weight: 0.01, Floor: 100_000}} {
		s := w.leaf(Root, n, []int64{100, 4000, 100, 20, 8000}[i])
		s.keep = 5
		b := &source{leaf: s.leaf, cost: s.cost, keep: 2, call: Call{Background: true}}
		w.sources = append(w.sources, b)
	}
	for range 4 {
		w.reset()
		w.run(10 * time.Minute)
		for _, s := range w.sources {
			if s.calls == 0 {
				t.Errorf("I5: leaf %d (background %v) was not served in ten minutes", s.leaf, s.call.Background)
			}
		}
	}
}

// A child's new weight may change which call below its parent is first, and with it
// the turn among equals of all above.
//
// Catches: an update that leaves the nodes above as they stood.
func TestUpdateKeepsTheOrderAbove(t *testing.T) {
	p := New(t0, Config{TPM: 600_000, MaxQueue: 10})
	org := p.Add(Root, Node{Weight: 1})
	heavy := p.Add(org, Node{Weight: 1})
	light := p.Add(org, Node{Weight: 1})
	other := p.Add(Root, Node{Weight: 1})
	p.axes[Tokens].pace.level = -1
	for leaf, c := range map[NodeID]int64{heavy: 9000, light: 100, other: 500} {
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{c, 1}, MaxWait: time.Hour})
	}
	p.Update(light, Node{Weight: 0.001})
	if first, _, _ := p.next(true); first != other {
		t.Errorf("leaf %d is first, want %d", first, other)
	}
	testkit.OK(t, p.Check())
}

// idlePool is a pool that has been idle long enough to hold its burst.
func idlePool(cfg Config, leaves int) (*Pool, time.Time) {
	p := New(t0, cfg)
	for range leaves {
		p.Add(Root, Node{Weight: 1})
	}
	return p, t0.Add(5 * time.Minute)
}

// Two equal tenants whose calls take a twentieth of what they declare, for a
// second or for twenty. The one that returns to the other's flood receives as much
// as it: refunds of calls in flight do not pull the other's tag ahead of it.
func TestI3_ReturnAgainstRefunds(t *testing.T) {
	for _, acc := range []Accounting{AdmitMax, Settled} {
		for _, took := range []int64{4096, 2000, 200} {
			for _, run := range []time.Duration{time.Second, 20 * time.Second} {
				got := returnAgainst(t, acc, took, run)
				if r := float64(got[1]) / float64(got[0]); r < 0.85 || r > 1.15 {
					t.Errorf("accounting %d, %d of 4096 taken in %v: the returning tenant received %.2f of the other's", acc, took, run, r)
				}
			}
		}
	}
}

// returnAgainst runs leaf 0 alone for five minutes and with leaf 1 for three, and
// says what each received in these three.
func returnAgainst(t *testing.T, acc Accounting, took int64, run time.Duration) (got [2]int64) {
	p, now := idlePool(Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000, Accounting: acc}, 2)
	type call struct {
		h    Handle
		leaf NodeID
		end  time.Time
	}
	var running []call
	leafOf := map[Handle]NodeID{}
	waiting := [2]int{}
	begin := func(h Handle, l NodeID) {
		running = append(running, call{h, l, now.Add(run)})
		got[l] += took
	}
	pump := func() {
		for _, h := range p.Pump(now, nil) {
			l := leafOf[h]
			delete(leafOf, h)
			waiting[l]--
			begin(h, l)
		}
	}
	back := now.Add(5 * time.Minute)
	for end := back.Add(3 * time.Minute); now.Before(end); now = now.Add(50 * time.Millisecond) {
		if now.Equal(back) {
			got = [2]int64{}
		}
		still := running[:0]
		for _, c := range running {
			if now.Before(c.end) {
				still = append(still, c)
			} else {
				p.Settle(now, c.h, Cost{took, 1})
			}
		}
		running = still
		pump()
		for l := range NodeID(2) {
			for waiting[l] < 16 && (l == 0 || !now.Before(back)) {
				h, ans := p.Offer(now, Call{Leaf: l + 1, Most: Cost{4096, 1}, Expect: took, Run: run, MaxWait: time.Hour})
				if ans.Verdict == Admitted {
					begin(h, l)
					continue
				}
				leafOf[h] = l
				waiting[l]++
				pump()
			}
		}
	}
	testkit.OK(t, p.Check())
	return got
}

// A hundred idle tenants come at once, with equal tags. Who queues is served
// within its max_wait, give or take a tenth; the others are refused at once.
func TestI5_TiesAreCounted(t *testing.T) {
	p, now := idlePool(Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 10_000}, 100)
	const maxWait = 5 * time.Second
	waiting := map[Handle]bool{}
	refused := 0
	for i := range 100 {
		h, ans := p.Offer(now, Call{Leaf: NodeID(i + 1), Most: Cost{8000, 1}, MaxWait: maxWait})
		switch ans.Verdict {
		case Queued:
			waiting[h] = true
		case TooLong:
			refused++
		}
		p.Pump(now, nil)
	}
	for end := now.Add(maxWait * 11 / 10); now.Before(end); now = now.Add(10 * time.Millisecond) {
		for _, h := range p.Pump(now, nil) {
			delete(waiting, h)
		}
	}
	if len(waiting) > 1 || refused < 70 {
		t.Errorf("%d of those who queued were not served in time, %d were refused at once", len(waiting), refused)
	}
}

// One call that takes five times the minute stops the pool until its debt has left
// the window, and not longer; and the time that others are told is true.
func TestDebtIsWaitedForOnce(t *testing.T) {
	for _, acc := range []Accounting{AdmitMax, Production, Settled} {
		p, now := idlePool(Config{TPM: 30_000, Burst: 10 * time.Second, Accounting: acc, MaxQueue: 10}, 2)
		h, ans := p.Offer(now, Call{Leaf: 1, Most: Cost{30_000, 1}, MaxWait: 0})
		if ans.Verdict != Admitted {
			t.Fatal(ans)
		}
		now = now.Add(time.Second)
		p.Settle(now, h, Cost{150_000, 1})
		_, ans = p.Offer(now, Call{Leaf: 2, Most: Cost{500, 1}, MaxWait: 0})
		if ans.Wait < 59*time.Second || ans.Wait > 2*time.Minute {
			t.Errorf("accounting %d: told to come back after %v", acc, ans.Wait)
		}
		if _, again := p.Offer(now.Add(ans.Wait), Call{Leaf: 2, Most: Cost{500, 1}}); again.Verdict != Admitted {
			t.Errorf("accounting %d: came back after %v as told and was told %v more", acc, ans.Wait, again.Wait)
		}
	}
}

// Calls that give back most of what they hold do not make others be refused for
// the minute that they will not take.
func TestPredictionKnowsRefunds(t *testing.T) {
	p, now := idlePool(Config{TPM: 60_000, Burst: time.Minute, MaxQueue: 100}, 1)
	fill := func() (held []Handle, ans Answer) {
		for {
			h, ans := p.Offer(now, Call{Leaf: 1, Most: Cost{4096, 1}, Expect: 200, MaxWait: 10 * time.Second})
			if ans.Verdict != Admitted {
				if ans.Verdict == Queued {
					p.Cancel(now, h)
				}
				return held, ans
			}
			held = append(held, h)
		}
	}
	for range 3 { // three rounds of calls that run for a second
		held, _ := fill()
		now = now.Add(time.Second)
		for _, h := range held {
			p.Settle(now, h, Cost{200, 1})
		}
	}
	if _, ans := fill(); ans.Verdict != Queued || ans.Wait > 5*time.Second {
		t.Errorf("a call ready to wait 10 s, when all before it end within one: %+v", ans)
	}
}

// A tenant that returns has no claim on the time that it was away.
func TestReturningIsNoCredit(t *testing.T) {
	w := newWorld(t, 1, Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}, 1, 1)
	w.tenants[0].workers = 8
	w.run(5 * Window)
	w.tenants[1].workers = 8
	from := w.now
	w.run(30 * time.Second)
	got := w.received(from)
	if r := got[1] / got[0]; r < 0.9 || r > 1.1 {
		t.Errorf("in its first half minute the returning tenant received %.2f of the other's", r)
	}
}
