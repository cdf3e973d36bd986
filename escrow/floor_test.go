package escrow

import (
	"math"
	"testing"
	"time"
)

// near fails when what a source got in a minute is off by more than a part.
func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*want {
		t.Errorf("%s got %.0f a minute, want %.0f", what, got, want)
	}
}

// perMinute is what a source got a minute over five minutes from now on.
func perMinute(w *sim, s ...*source) (rates []float64) {
	w.reset()
	w.run(5 * time.Minute)
	for _, x := range s {
		rates = append(rates, float64(x.got)/5)
	}
	return rates
}

// A node with a floor gets the larger of floor and share under heavy competition,
// as leaf or inner node, alone or among floors, with interactive or background
// calls; the others share the rest by weight.
//
// Catches: floors that are not paid; floors paid in units of another axis.
func TestFloorIsALeastShare(t *testing.T) {
	const limit = 600_000
	w := newSim(t, 1, Config{TPM: limit})
	small := w.leaf(Root, Node{Weight: 100, Floor: 100_000}, 500) // floor above share
	big := w.leaf(Root, Node{Weight: 4000, Floor: 60_000}, 1000)  // share above floor
	org := w.p.Add(Root, Node{Weight: 100, Floor: 90_000})        // floor of an inner node
	a := w.leaf(org, Node{Weight: 1000}, 700)
	b := w.leaf(org, Node{Weight: 2000}, 700)
	deep := w.p.Add(Root, Node{Weight: 1000})
	inner := w.leaf(deep, Node{Weight: 10, Floor: 40_000}, 400) // floor below an inner node
	rest := w.leaf(deep, Node{Weight: 1000}, 1000)
	later := w.leaf(Root, Node{Weight: 100, Floor: 50_000}, 600) // floor of background calls
	later.call.Background = true
	for _, s := range w.sources {
		s.keep = 8
	}
	w.run(time.Minute)
	r := perMinute(w, small, big, a, b, inner, rest, later)
	near(t, "a floor above its share", r[0], 100_000, .03)
	near(t, "the first leaf of an inner floor", r[2], 30_000, .05)
	near(t, "the second leaf of an inner floor", r[3], 60_000, .05)
	near(t, "a floor below an inner node", r[4], 40_000, .05)
	near(t, "a floor of background calls", r[6], 50_000, .05)
	// of what is left the others have 4 : 1, the second less its leaf's floor
	left := limit*600./601 - 100_000 - 90_000 - 50_000
	near(t, "a share above its floor", r[1], left*4/5, .05)
	near(t, "the rest", r[5], left/5-40_000, .10)
}

// A call for a leaf's floor counts for the floor of its organisation as well.
//
// Catches: a payment that does not reach the floors above.
func TestFloorWithinAFloor(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000})
	org := w.p.Add(Root, Node{Weight: 1, Floor: 60_000})
	a := w.leaf(org, Node{Weight: WeightOne, Floor: 60_000}, 500)
	b := w.leaf(org, Node{Weight: WeightOne}, 500)
	other := w.leaf(Root, Node{Weight: 1000 * WeightOne}, 1000)
	a.keep = 8
	b.keep = 8
	other.keep = 8
	w.run(time.Minute)
	r := perMinute(w, a, b, other)
	near(t, "the organisation", r[0]+r[1], 60_000, .05)
}

// Background calls get a twentieth of their leaf while interactive ones wait, and
// all of it when none do.
//
// Catches: no least share.
func TestBackgroundHasALeastShare(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000})
	s := w.leaf(Root, Node{Weight: WeightOne}, 300)
	s.keep = 8
	b := &source{leaf: s.leaf, cost: 1700, keep: 3, call: Call{Background: true}}
	w.sources = append(w.sources, b)
	other := w.leaf(Root, Node{Weight: WeightOne}, 1000)
	other.keep = 4
	w.run(time.Minute)
	r := perMinute(w, s, b, other)
	near(t, "interactive", r[0], 285_000, .03)
	near(t, "background", r[1], 15_000, .08)
	w.stop(s)
	w.run(10 * time.Second)
	r = perMinute(w, b)
	near(t, "background alone", r[0], 300_000, .02)
}

// A leaf that was quiet may catch up its credit, once, and no more than it missed.
//
// Catches: credit not divided by the weights; virtual time that never moves; a lead that does
// not decay.
func TestCreditIsBounded(t *testing.T) {
	const limit = 600_000
	part := func(credit time.Duration) float64 {
		w := newSim(t, 1, Config{TPM: limit})
		a := w.leaf(Root, Node{Weight: WeightOne}, 500)
		b := w.leaf(Root, Node{Weight: WeightOne, Credit: credit}, 500)
		a.keep = 8
		w.run(5 * time.Minute)
		w.reset()
		b.keep = 8
		w.run(time.Minute)
		return float64(b.got-a.got) / (limit / 2 / 60) // seconds of its own share
	}
	for _, credit := range []time.Duration{0, 5 * time.Second, 10 * time.Second} {
		if got := part(credit); math.Abs(got-credit.Seconds()) > .3 {
			t.Errorf("credit %v: caught up %.2f s of its share", credit, got)
		} else {
			t.Logf("credit %v: caught up %.2f s of its share", credit, got)
		}
	}
}

// A new weight holds from now on; what a node owes, or is owed, stays the same in
// cost.
//
// Catches: tags left as they are when the weight changes.
func TestWeightsChangeLive(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000})
	a := w.leaf(Root, Node{Weight: WeightOne}, 1000)
	b := w.leaf(Root, Node{Weight: WeightOne}, 1000)
	a.keep = 4
	b.keep = 4
	w.run(time.Minute)
	// a takes 60,000 more than it declared: a debt of 60,000
	a.took = func(c int64) int64 { a.took = nil; return c + 60_000 }
	w.run(time.Second)
	w.reset()
	w.p.Update(a.leaf, Node{Weight: 4 * WeightOne})
	w.run(5 * time.Minute)
	// of the sum S, a is to have (S+60,000)·4/5 - 60,000
	sum := float64(a.got + b.got)
	if want := (sum+60_000)*4/5 - 60_000; math.Abs(float64(a.got)-want) > 4000 {
		t.Errorf("with its debt and four times the weight it got %d, want %.0f", a.got, want)
	}
	if p := w.p.nodes[Root].inner; p.weights != 5*WeightOne {
		t.Errorf("the weights sum to %d", p.weights)
	}
}

// Who owes to siblings that wait stays until it is paid.
//
// Catches: Remove without a look at the tag.
func TestRemoveKeepsDebt(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000})
	a := w.leaf(Root, Node{Weight: WeightOne}, 1000)
	b := w.leaf(Root, Node{Weight: WeightOne}, 1000)
	a.keep = 1
	b.keep = 4
	w.run(time.Minute)
	a.took = func(c int64) int64 { a.took = nil; return c + 100_000 }
	w.run(time.Second)
	a.keep = 0
	for w.now.Sub(t0) < 10*time.Minute && a.waiting > 0 {
		w.run(w.dt)
	}
	a.took = func(c int64) int64 { a.took = nil; return c + 100_000 }
	w.offer(a)
	for a.waiting > 0 {
		w.run(w.dt)
	}
	from := w.now
	for !w.p.Remove(w.now, a.leaf) {
		w.run(w.dt)
		if w.now.Sub(from) > time.Minute {
			t.Fatal("never")
		}
	}
	if paid := w.now.Sub(from); paid < 9*time.Second || paid > 12*time.Second+10*time.Second {
		t.Errorf("a debt of 101,000 at 10,000 a second was paid after %v", paid)
	}
}
