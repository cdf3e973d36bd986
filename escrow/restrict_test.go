package escrow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// TestRestrict: a restricted leaf begins no more calls than it may, however often it asks; others find all other slots, and nobody waits
// behind the calls that it keeps waiting. When one of its own ends, the next goes.
func TestRestrict(t *testing.T) {
	now := t0
	p := New(now, Config{Slots: 10, MaxQueue: 100})
	heavy := p.Add(Root, Node{Weight: 9 * WeightOne})
	light := p.Add(Root, Node{Weight: WeightOne})
	offer := func(leaf NodeID, wait time.Duration) (Handle, Answer) {
		h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: wait})
		p.Pump(now, nil)
		testkit.OK(t, p.Check())
		return h, ans
	}
	var runs []Handle
	for range 6 {
		h, _ := offer(heavy, 0)
		runs = append(runs, h)
	}
	p.Restrict(heavy, 0, 3, now.Add(time.Hour))
	if most, running := p.Restriction(&Call{Leaf: heavy}); most != 3 || running != 6 {
		t.Errorf("it may run %d and runs %d, want 3 and 6", most, running)
	}
	waits, ans := offer(heavy, time.Hour)
	if ans.Verdict != Queued {
		t.Fatalf("at its bound, a call is %v", ans.Verdict)
	}
	if a := p.Account(heavy); a.Waiting != 0 {
		t.Errorf("a call that waits at the bound is demand: %+v", a)
	}
	if _, ans = offer(heavy, 0); ans.Verdict != TooLong || ans.Wait <= 0 {
		t.Errorf("at its bound, a call that does not wait is %+v", ans)
	}
	if turned := p.Account(heavy).Turned; turned != 0 {
		t.Errorf("a call that the bound turned away is demand: %d", turned)
	}
	for range 4 {
		if _, ans = offer(light, 0); ans.Verdict != Admitted {
			t.Errorf("beside it, another's call is %v", ans.Verdict)
		}
	}
	for i, goes := range []bool{false, false, false, true} {
		p.Settle(now, runs[i], Cost{0, 1})
		p.Pump(now, nil)
		if p.Running(waits) != goes {
			t.Errorf("when %d of its 6 have ended, that the call that waits runs is %v", i+1, !goes)
		}
	}
	p.Restrict(heavy, 0, 0, now)
	if _, ans = offer(heavy, 0); ans.Verdict != Admitted {
		t.Errorf("without a bound, a call is %v", ans.Verdict)
	}
}

// TestRestrict_Upstreams: a leaf is restricted at one upstream, and goes to the others. Only if none is open to a call it waits, and
// calls of its leaf that may use others are not held up by what came last.
func TestRestrict_Upstreams(t *testing.T) {
	w, u := simOf(t, 1, 600_000, 600_000)
	p := w.p
	leaf := p.Add(Root, Node{Weight: WeightOne})
	other := p.Add(Root, Node{Weight: WeightOne})
	patience := time.Duration(0)
	offer := func(leaf NodeID, via Mask) Verdict {
		_, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: via, MaxWait: patience})
		p.Pump(t0, nil)
		testkit.OK(t, p.Check())
		return ans.Verdict
	}
	p.Restrict(leaf, 0, 2, t0.Add(time.Hour))
	for range 6 {
		if v := offer(leaf, 3); v != Admitted {
			t.Errorf("a call that may use the other is %v", v)
		}
	}
	if u.list[0].calls != 2 || u.list[1].calls != 4 {
		t.Errorf("%d and %d calls went to the upstreams, want 2 and 4", u.list[0].calls, u.list[1].calls)
	}
	if v := offer(leaf, 1); v != TooLong {
		t.Errorf("a call that may not use the other is %v", v)
	}
	if v := offer(leaf, 2); v != Admitted {
		t.Errorf("after it, one that goes to the other is %v", v)
	}
	if v := offer(other, 1); v != Admitted {
		t.Errorf("a call of another leaf is %v", v)
	}
	u.list[1].slots = u.list[1].running
	patience = time.Hour
	if v := offer(leaf, 3); v != Queued {
		t.Errorf("with the other full, a call that may use both is %v", v)
	}
	if v := offer(other, 2); v != Queued {
		t.Errorf("with the other full, a call of another leaf to it is %v", v)
	}
	if v := offer(other, 1); v != Admitted {
		t.Errorf("beside these, a call of another leaf is %v", v)
	}
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
			s := w.leaf(Root, Node{Weight: WeightOne}, 1)
			s.run = func() time.Duration { return time.Second/2 + time.Duration(w.rng.Int64N(int64(time.Second/2))) }
			s.keep = rng.IntN(20)
			s.rate = float64(slots) / float64(tenants) * rng.Float64()
		}
		before := make([]int, tenants)
		for step := range 1000 {
			for i, s := range w.sources {
				if step%100 == 0 {
					most[i] = rng.Int64N(slots/2 + 1)
					w.p.Restrict(s.leaf, 0, most[i], t0.Add(time.Hour))
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
		leaf := p.Add(Root, Node{Weight: WeightOne})
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: 2})
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: 1})
		end := t0.Add(time.Minute)
		p.Restrict(leaf, 0, 1, end)
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
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}
