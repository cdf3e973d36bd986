package escrow

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// restrict bounds how many calls of a leaf run at an upstream until a time, as failures do; 0 is no bound.
func (p *Pool) restrict(leaf NodeID, upstream int, most int64, until time.Time) {
	l := &p.nodes[leaf].leaf
	l.restricted = slices.DeleteFunc(l.restricted, func(r restriction) bool { return r.upstream == upstream })
	if most > 0 {
		l.restricted = append(l.restricted, restriction{upstream: upstream, most: most, running: p.countRunning(leaf, upstream), until: until})
	}
}

// TestRestrict_Upstreams: a leaf is restricted at one upstream, and goes to the others. Only if none is open to a call it waits, and
// calls of its leaf that may use others are not held up by what came last.
func TestRestrict_Upstreams(t *testing.T) {
	w, u := simOf(t, 1, 600_000, 600_000)
	p := w.p
	leaf := p.Add(Root, Node{Weight: 1})
	other := p.Add(Root, Node{Weight: 1})
	patience := time.Duration(0)
	offer := func(what string, leaf NodeID, via Mask, want Verdict) {
		t.Helper()
		_, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: via, MaxWait: patience})
		p.Pump(t0, nil)
		testkit.OK(t, p.Check())
		if ans.Verdict != want {
			t.Errorf("%s is %v, want %v", what, ans.Verdict, want)
		}
	}
	p.restrict(leaf, 0, 2, t0.Add(time.Hour))
	for range 6 {
		offer("a call that may use the other", leaf, 3, Admitted)
	}
	if u.list[0].calls != 2 || u.list[1].calls != 4 {
		t.Errorf("%d and %d calls went to the upstreams, want 2 and 4", u.list[0].calls, u.list[1].calls)
	}
	offer("a call that may not use the other", leaf, 1, TooLong)
	offer("after it, one that goes to the other", leaf, 2, Admitted)
	offer("a call of another leaf", other, 1, Admitted)
	u.list[1].slots = u.list[1].running
	patience = time.Hour
	offer("with the other full, a call that may use both", leaf, 3, Queued)
	offer("with the other full, a call of another leaf to it", other, 2, Queued)
	offer("beside these, a call of another leaf", other, 1, Admitted)
}

// TestRestrict_Rules: whatever comes, no call begins beyond its leaf's bound, and no slot stays free that a call below it waits for.
func TestRestrict_Rules(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 20))
		slots := 2 + rng.Int64N(30)
		w := newSim(t, seed, Config{Slots: slots})
		tenants := 1 + rng.IntN(5)
		most := make([]int64, tenants)
		for range tenants {
			s := w.leaf(Root, Node{Weight: 1}, 1)
			s.run = func() time.Duration { return time.Second/2 + time.Duration(w.rng.Int64N(int64(time.Second/2))) }
			s.keep = rng.IntN(20)
			s.rate = float64(slots) / float64(tenants) * rng.Float64()
		}
		before := make([]int, tenants)
		for step := range 1000 {
			for i, s := range w.sources {
				if step%100 == 0 {
					most[i] = rng.Int64N(slots/2 + 1)
					w.p.restrict(s.leaf, 0, most[i], t0.Add(time.Hour))
				}
				before[i] = s.calls
			}
			w.run(w.dt)
			running := w.p.InFlight()
			for i, s := range w.sources {
				bounded := most[i] > 0
				if bounded && s.calls > before[i] && int64(s.open) > most[i] {
					t.Fatalf("seed %d: a leaf runs %d calls, bound to %d", seed, s.open, most[i])
				}
				if s.waiting > 0 && running < slots && (!bounded || int64(s.open) < most[i]) {
					t.Fatalf("seed %d: %d wait that run %d, and %d of %d slots are in use, bound to %d", seed, s.waiting, s.open, running, slots, most[i])
				}
			}
		}
		testkit.OK(t, w.p.Check())
	}
}

// TestRestrict_Ends: at the end of a restriction the calls that it keeps waiting go, and Pump is due then: at one upstream, and at one of two
// of which the other is full.
func TestRestrict_Ends(t *testing.T) {
	for what, via := range map[string]Mask{"the only one": 1, "one of two": 3} {
		w, u := simOf(t, 1, 600_000, 600_000)
		p := w.p
		u.list[1].slots = 1
		leaf := p.Add(Root, Node{Weight: 1})
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: 2})
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: 1})
		end := t0.Add(time.Minute)
		p.restrict(leaf, 0, 1, end)
		h, _ := p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: via, MaxWait: time.Hour})
		for _, now := range []time.Time{t0, t0.Add(time.Second)} {
			p.Pump(now, nil)
			if at, ok := p.Next(); !ok || !at.Equal(end) || p.Running(h) {
				t.Errorf("%s: Pump is due at %v (%v), want the end of the restriction", what, at.Sub(t0), ok)
			}
		}
		p.Pump(end, nil)
		if !p.Running(h) {
			t.Errorf("%s: at the end of the restriction a call waits on", what)
		}
		testkit.OK(t, p.Check())
	}
}

// A pool narrowed below what runs dispatches nothing until fewer run, goes on when it is
// widened, keeps its shares and charges meanwhile, and lets background calls begin while as few
// run as it is told. Mutations seen: charges by the narrowed number (a call's cost moves); the
// reserve of the configuration (no background call ever goes).
func TestNarrow(t *testing.T) {
	now := t0
	p := New(now, Config{Slots: 8, InteractiveReserve: 4, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: 1})
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
	p.Narrow(4)
	if got := p.State(now).Slots; got != 4 {
		t.Fatalf("State has %d slots, want 4", got)
	}
	if p.Free() {
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
	p.Narrow(5)
	if out := p.Pump(now, nil); len(out) != 1 || out[0] != behind {
		t.Fatalf("when it is widened %v goes, want %v", out, behind)
	}
	for _, h := range append(runs[3:], waits, behind) {
		p.Settle(now, h, Cost{0, 1})
	}

	p.Narrow(4)
	for n, want := range []Verdict{Admitted, Admitted, Queued} {
		if _, v := offer(true); v != want {
			t.Errorf("with %d of 4 running a background call is %v, want %v", n, v, want)
		}
	}
	if p.Configure(now, Config{Slots: 8, MaxQueue: 10}); p.State(now).Slots != 8 {
		t.Error("Configure has left it narrowed")
	}

	if p.Narrow(0); p.Free() {
		t.Error("a pool narrowed to nothing has a slot")
	}

	q := New(now, Config{Slots: 8, MaxQueue: 10})
	q.Narrow(1)
	other := q.Add(Root, Node{Weight: 1})
	for range 6 {
		q.Force(now, Call{Leaf: other, Most: Cost{0, 1}}, true)
	}
	if q.nodes[other].finish != moved {
		t.Errorf("six calls move the tag by %d in a narrowed pool, and by %d else", q.nodes[other].finish, moved)
	}
}

// Before the end of a hold nothing goes, and who asks is told when; then those who
// waited go in fair order, at the pool's rate and not with a burst. Catches: a hold
// that Next does not know (nobody is ever dispatched); waits that are told without
// it; a burst behind it, which the provider refuses again.
func TestThrottle_Hold(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, RPM: 60_000, Burst: 30 * time.Second, MaxQueue: 1000})
	a := p.Add(Root, Node{Weight: 1})
	b := p.Add(Root, Node{Weight: 1})
	now := t0.Add(time.Hour) // its burst is full
	until := now.Add(20 * time.Second)
	p.Throttle(now, WholePace, until)
	if _, ans := p.Offer(now, Call{Leaf: a, Most: Cost{100, 1}}); ans.Verdict != TooLong || ans.Wait != 20*time.Second {
		t.Fatalf("who does not wait is answered %+v, want TooLong for 20 s", ans)
	}
	if _, ans := p.Offer(now, Call{Leaf: a, Most: Cost{100, 1}, MaxWait: 10 * time.Second}); ans.Verdict != TooLong {
		t.Fatalf("who waits 10 s is answered %+v, want TooLong", ans)
	}
	for range 40 {
		for _, leaf := range []NodeID{a, a, a, b} { // a asks more often
			if _, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{100, 1}, MaxWait: time.Minute}); ans.Verdict != Queued {
				t.Fatalf("who waits a minute is answered %+v", ans)
			}
		}
	}
	if out := p.Pump(now, nil); len(out) != 0 {
		t.Fatalf("%d calls go during the hold", len(out))
	}
	if at, ok := p.Next(); !ok || !at.Equal(until) {
		t.Fatalf("Next is %v, %v; want the end of the hold", at, ok)
	}
	if out := p.Pump(until.Add(-time.Millisecond), nil); len(out) != 0 {
		t.Fatalf("%d calls go a moment before the hold ends", len(out))
	}
	out := p.Pump(until, nil)
	if len(out) != 10 { // one second of 60,000 a minute
		t.Fatalf("%d calls go at the end of the hold, want 10", len(out))
	}
	byLeaf := map[NodeID]int{}
	for _, h := range out {
		byLeaf[p.entries[h.Slot].leaf]++
	}
	if byLeaf[a] != 5 || byLeaf[b] != 5 {
		t.Errorf("of them %d are of the one and %d of the other, want 5 each", byLeaf[a], byLeaf[b])
	}
	testkit.OK(t, p.Check())
}

// A pool of which a part is gone hands out the rest, by the same shares, and what was
// used stays used: nothing stalls until it has left the minute. Catches: a limit that
// is lowered instead (what the other part has used blocks for most of a minute); a
// part that is lost when the limit changes.
func TestThrottle_Part(t *testing.T) {
	cfg := Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}
	w := newWorld(t, 1, cfg, 2, 1)
	for _, p := range w.tenants {
		p.workers = 16
	}
	w.run(3 * Window)
	w.pool.Throttle(w.now, WholePace/4, time.Time{})
	for i, span := range []time.Duration{Window / 2, 2 * Window} {
		from := w.now
		w.run(span)
		got := w.received(from)
		if of := (got[0] + got[1]) / span.Minutes() / 150_000; of < 0.9 || of > 1.1 {
			t.Errorf("span %d: %.3f of a quarter of the limit is handed out", i, of)
		}
		if r := got[0] / got[1]; r < 1.8 || r > 2.2 {
			t.Errorf("span %d: shares of %.3f to 1, want 2 to 1", i, r)
		}
	}
	cfg.TPM = 1_200_000
	w.pool.Configure(w.now, cfg)
	w.run(Window)
	from := w.now
	w.run(2 * Window)
	if got := w.received(from); (got[0]+got[1])/2 < 270_000 || (got[0]+got[1])/2 > 330_000 {
		t.Errorf("with twice the limit %.0f a minute is handed out, want 300,000", (got[0]+got[1])/2)
	}
	w.pool.Throttle(w.now, WholePace, time.Time{})
	w.run(Window)
	from = w.now
	w.run(2 * Window)
	if got := w.received(from); (got[0]+got[1])/2 < 1_150_000 || w.rollingMax() > 1_200_000 {
		t.Errorf("the whole again: %.0f a minute, the fullest minute has %d", (got[0]+got[1])/2, w.rollingMax())
	}
}
