package escrow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Three siblings at each level wait all along; estimates are wrong by up to three
// times in both directions, and calls run a while. Between any two siblings the
// service over weight differs by at most one call, and what the estimates in flight
// are wrong by, of each.
//
// Catches: settles that correct only the leaf's tag; no charge above the leaf; tags moved by
// cost instead of cost/weight; virtual time that moves at the root only, or never.
func TestI3_SiblingsAtEachLevel(t *testing.T) {
	for seed := range uint64(6) {
		w := newSim(t, seed, Config{TPM: 600_000, Accounting: Settled})
		var by [3][]*source // of the subtree of each child of the root
		weights := []float64{1, 2, 5}
		for i, a := range weights {
			org := w.p.Add(Root, Node{Weight: Weight(a)})
			for _, b := range weights {
				s := w.leaf(org, Node{Weight: Weight(b)}, 300)
				s.keep = 12
				s.took = func(c int64) int64 { return 1 + w.rng.Int64N(3*c) }
				s.run = func() time.Duration { return time.Duration(w.rng.IntN(2000)) * time.Millisecond }
				by[i] = append(by[i], s)
			}
		}
		w.run(10 * time.Second)
		w.reset()
		w.run(2 * time.Minute)
		const call = 900 + 600*12 // the largest, and errors of those in flight
		sum := func(s []*source) (n float64) {
			for _, x := range s {
				n += float64(x.got)
			}
			return n
		}
		differ := func(what string, a, b, wa, wb float64) {
			if d := math.Abs(a/wa - b/wb); d > call/wa+call/wb {
				t.Errorf("I3: seed %d: %s: %.0f/%.0f and %.0f/%.0f differ by %.0f", seed, what, a, wa, b, wb, d)
			}
		}
		for i := range 3 {
			for j := range i {
				differ("orgs", sum(by[i]), sum(by[j]), weights[i], weights[j])
				for k := range 3 {
					differ(fmt.Sprint("leaves of org ", k), float64(by[k][i].got), float64(by[k][j].got), weights[i], weights[j])
				}
			}
		}
	}
}

// A leaf that returns, alone or with nine others, at any depth, while others wait at
// each level, is dispatched within (the largest call, its own, and those that return
// with it) / the rate that its parent has; with a lead, that much later.
//
// Catches: no charge above the leaf; a start tag that is not bounded by the node's own.
func TestI4_ReturnAtAnyDepth(t *testing.T) {
	const limit, most = 600_000, 2000
	for depth := 1; depth <= 4; depth++ {
		for _, ties := range []int{0, 9} {
			for _, burst := range []time.Duration{0, 10 * time.Second} {
				w := newSim(t, uint64(depth), Config{TPM: limit, Burst: burst})
				at := Root
				for d := 1; d < depth; d++ {
					w.leaf(at, Node{Weight: 3}, most).keep = 4
					at = w.p.Add(at, Node{Weight: 1})
				}
				w.leaf(at, Node{Weight: 1}, most).keep = 4
				var back []*source
				for range 1 + ties {
					back = append(back, w.leaf(at, Node{Weight: 1}, 500))
				}
				w.run(3*time.Minute + 7*time.Second)
				lead := max(0, w.p.axes[Tokens].pace.lead-limit/60)
				for _, s := range back {
					s.keep = 1
				}
				from := w.now
				w.run(time.Minute)
				rate := limit / 60 * 600. / 601 / math.Pow(4, float64(depth-1)) // of its parent
				bound := 2*w.dt + time.Duration((float64(most+500*(1+ties))/rate+float64(lead)/(limit/60))*float64(time.Second))
				for _, s := range back {
					if first := s.first.Sub(from); s.first.IsZero() || first > bound {
						t.Errorf("I4: depth %d, %d with it, burst %v: dispatched after %v, want %v", depth, ties, burst, first, bound)
					}
				}
			}
		}
	}
}

// A tenant gains nothing by declaring ten times what it takes, nor by a tenth of
// it, nor by many leaves under its parent, nor by coming and going to collect lead
// and credit.
//
// Catches: settles that correct only the leaf's tag; no charge above the leaf; a start tag that
// is not bounded by the node's own.
func TestI11_NoTrickGains(t *testing.T) {
	const limit = 600_000
	honest := func(name string, trick func(w *sim, org NodeID) []*source, flap bool) {
		w := newSim(t, 5, Config{TPM: limit, Burst: 10 * time.Second})
		w.dt = 20 * time.Millisecond
		cheat := w.p.Add(Root, Node{Weight: 1, Credit: 2 * time.Second})
		other := w.leaf(w.p.Add(Root, Node{Weight: 1, Credit: 2 * time.Second}), Node{Weight: 1}, 1000)
		other.keep = 8
		tricks := trick(w, cheat)
		w.run(time.Minute)
		w.reset()
		for k := range 300 {
			if flap {
				for _, s := range tricks {
					if k%2 == 0 {
						s.keep = 20
					} else {
						w.stop(s)
					}
				}
			}
			w.run(2 * time.Second)
		}
		got := int64(0)
		for _, s := range tricks {
			got += s.got
		}
		if r := float64(got) / float64(other.got); r > 1.01 {
			t.Errorf("I11: %s: %.3f of what an honest tenant gets", name, r)
		} else {
			t.Logf("I11: %s: %.3f of what an honest tenant gets", name, r)
		}
	}
	declare := func(declared, takes int64) func(*sim, NodeID) []*source {
		return func(w *sim, org NodeID) []*source {
			s := w.leaf(org, Node{Weight: 1}, declared)
			s.keep = 8
			s.took = func(int64) int64 { return takes }
			return []*source{s}
		}
	}
	honest("declares ten times as much", declare(10_000, 1000), false)
	honest("declares a tenth", declare(100, 1000), false)
	honest("comes and goes", declare(1000, 1000), true)
	honest("comes and goes, and declares a tenth", declare(100, 1000), true)
	many := func(w *sim, org NodeID) (all []*source) {
		for range 16 {
			s := w.leaf(org, Node{Weight: 1, Credit: time.Second}, 1000)
			s.keep = 4
			all = append(all, s)
		}
		return all
	}
	honest("splits into 16", many, false)
	honest("splits into 16 that come and go", many, true)
}

// A tenant bursts and stays; another, or its organisation's other team, returns 5 s
// later, and gets its part of what a fluid server gives it in 55 s.
//
// Catches: no lead; the whole lead at each level.
func TestLeadMakesReturnersWhole(t *testing.T) {
	const limit = 600_000
	type plan struct {
		name          string
		bursts, later []string
		want          map[string]float64 // least part of the fluid share
	}
	// org1 w3 {x3,y1,z1}, org2 w1 {u1,v1}, org3 w2
	weights := map[string]float64{"org1": 3, "org2": 1, "org3": 2, "x": 3, "y": 1, "z": 1, "u": 1, "v": 1}
	org := map[string]string{"x": "org1", "y": "org1", "z": "org1", "u": "org2", "v": "org2"}
	for _, c := range []plan{
		{"T1", []string{"x"}, []string{"y"}, map[string]float64{"y": .90}},
		{"T3", []string{"x"}, []string{"u"}, map[string]float64{"u": .90}},
		{"T4", []string{"x"}, []string{"y", "org3"}, map[string]float64{"y": .88, "org3": .90}},
		{"T5", []string{"x", "u"}, []string{"y", "v"}, map[string]float64{"y": .90, "v": .90}},
		{"T6", []string{"x", "u"}, []string{"v", "org3"}, map[string]float64{"v": .90, "org3": .90}},
	} {
		w := newSim(t, 1, Config{TPM: limit, Burst: 10 * time.Second})
		ids := map[string]NodeID{}
		leaves := map[string]*source{}
		for _, o := range []string{"org1", "org2"} {
			ids[o] = w.p.Add(Root, Node{Weight: Weight(weights[o])})
		}
		leaves["org3"] = w.leaf(Root, Node{Weight: 2}, 1000)
		for _, l := range []string{"x", "y", "z", "u", "v"} {
			leaves[l] = w.leaf(ids[org[l]], Node{Weight: Weight(weights[l])}, 1000)
		}
		w.run(5 * time.Minute)
		for _, l := range c.bursts {
			leaves[l].keep = 20
		}
		w.run(5 * time.Second)
		w.reset()
		for _, l := range c.later {
			leaves[l].keep = 20
		}
		w.run(55 * time.Second)

		// What the fluid server gives each of those that wait now.
		tops := map[string]float64{}
		under := map[string]float64{}
		busy := append(append([]string{}, c.bursts...), c.later...)
		for i, l := range busy {
			again := false
			for _, m := range busy[:i] {
				again = again || m == l
			}
			if again {
				continue
			}
			if o := org[l]; o != "" {
				tops[o] = weights[o]
				under[o] += weights[l]
			} else {
				tops[l] = weights[l]
			}
		}
		all := 0.0
		for _, x := range tops {
			all += x
		}
		line := c.name
		for l, least := range c.want {
			share := weights[l] / all
			if o := org[l]; o != "" {
				share = tops[o] / all * weights[l] / under[o]
			}
			part := float64(leaves[l].got) / (share * limit / 60 * 55)
			line += fmt.Sprintf("  %s %.3f", l, part)
			if part < least || part > 1.06 {
				t.Errorf("%s: %s returned and got %.2f of its fluid share, want %.2f to 1.06", c.name, l, part, least)
			}
		}
		t.Log(line)
	}
}

// B returns 5 s after A's burst of N calls, and gets at least 93 % of its fluid
// share over the next 55 s.
//
// Catches: no lead.
func TestLeadAfterABurst(t *testing.T) {
	for _, c := range []struct {
		limit  int64
		calls  int
		weight float64
		least  float64
	}{
		{600_000, 100, 1, .97}, {600_000, 250, 1, .93}, {600_000, 100, 4, .95}, {600_000, 250, 4, .90}, {30_000, 20, 1, .97},
	} {
		w := newSim(t, 1, Config{TPM: c.limit, Burst: 10 * time.Second})
		a := w.leaf(Root, Node{Weight: 1}, 1000)
		b := w.leaf(Root, Node{Weight: Weight(c.weight)}, 1000)
		w.run(2 * time.Minute)
		for range c.calls {
			w.offer(a)
		}
		a.keep = 20
		w.run(5 * time.Second)
		w.reset()
		b.keep = 20
		from := w.now
		w.run(55 * time.Second)
		part := float64(b.got) / (c.weight / (1 + c.weight) * float64(c.limit) / 60 * 55)
		t.Logf("limit %d, %d calls, weight %v: first after %v, %.3f of the fluid share", c.limit, c.calls, c.weight, b.first.Sub(from), part)
		if part < c.least {
			t.Errorf("limit %d, %d calls, weight %v: %.3f of the fluid share, want %.2f", c.limit, c.calls, c.weight, part, c.least)
		}
	}
}

// Calls of 1, 10 and 60 s on 32 slots: slot time is shared by weight.
//
// Catches: no slot time in the virtual cost; tags moved by cost instead of cost/weight; refunds
// clipped at virtual time.
func TestI12_SlotSeconds(t *testing.T) {
	for _, weights := range [][]float64{{1, 2, 4}, {1, 1, 1}}[:testkit.Rounds(1, 2)] {
		w := newSim(t, 2, Config{Slots: 32})
		w.dt = 50 * time.Millisecond
		for i, mean := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
			s := w.leaf(Root, Node{Weight: Weight(weights[i])}, 1)
			s.keep, s.run, s.call.Run = 40, w.lognormal(mean), mean
		}
		w.run(5 * time.Minute)
		w.reset()
		w.run(120 * time.Minute)
		sum := time.Duration(0)
		total := 0.0
		for i, s := range w.sources {
			sum += s.slots
			total += weights[i]
		}
		for i, s := range w.sources {
			got := float64(s.slots) / float64(sum)
			want := weights[i] / total
			t.Logf("weights %v: calls of kind %d have %.4f of the slot time, want %.4f", weights, i, got, want)
			if math.Abs(got/want-1) > 0.03 {
				t.Errorf("I12: weights %v: calls of kind %d have %.4f of the slot time, want %.4f", weights, i, got, want)
			}
		}
	}
}

// Whatever shapes calls have, and whatever is limited: of tenants that all want more, each has the same dominant share for its
// weight, the axis that is exhausted first is used up, and no limit is passed in any minute.
//
// Catches: an axis that is left out of the virtual cost, or of what a call needs; input or output held, planned or settled twice.
func TestI12_AllAxes(t *testing.T) {
	for seed := range uint64(testkit.Rounds(2, 100)) {
		for _, accounting := range []Accounting{AdmitMax, Production, Settled} {
			dominantShares(t, pcgDraw{rand.New(rand.NewPCG(seed, 0))}, accounting)
		}
	}
}

func dominantShares(t *testing.T, d draw, accounting Accounting) {
	cfg := Config{
		TPM: pick(d, "tpm", 0, int64(700_000), 1_200_000), RPM: pick(d, "rpm", 0, int64(1500), 3000),
		ITPM: pick(d, "itpm", int64(400_000), 900_000), OTPM: pick(d, "otpm", int64(200_000), 500_000), Accounting: accounting,
	}
	w := newSim(t, 4, cfg)
	w.dt = 50 * time.Millisecond
	limits := cfg.Minute()
	var weights []float64
	dominant := func(c Cost) (share float64) {
		for k, limit := range limits {
			if limit > 0 {
				share = max(share, float64(c[k])/float64(limit))
			}
		}
		return share
	}
	for i := range 3 {
		weight := Weight(int(1) << i)
		s := w.leaf(Root, Node{Weight: weight}, 0)
		in := d.n("input", 20, 2000)
		out := d.n("output", 20, 1000)
		s.most = Cost{in + out, 1, in, out}
		s.call.Input = in
		s.keep = 40
		weights = append(weights, float64(weight))
	}
	w.run(3 * Window)
	w.reset()
	const minutes = 5
	w.run(minutes * Window)

	var all, each [Rolling]float64 // what is used, and what a unit of dominant share by weight takes
	for i, s := range w.sources {
		for k := range all {
			all[k] += float64(s.calls) * float64(s.most[k])
			each[k] += weights[i] * float64(s.most[k]) / dominant(s.most)
		}
	}
	level := math.Inf(1)
	for k, limit := range limits {
		if limit > 0 {
			level = min(level, float64(limit)/each[k])
		}
	}
	for i, s := range w.sources {
		share := float64(s.calls) * dominant(s.most) / minutes / (weights[i] * level)
		if math.Abs(share-1) > 0.03 {
			t.Errorf("I12: %+v: tenant %d of calls of %v has %.3f of its dominant share", cfg, i, s.most, share)
		}
	}
	for k, limit := range limits {
		if used := all[k] / minutes; limit > 0 && used > float64(limit) {
			t.Errorf("I1: %+v: %.0f %v a minute", cfg, used, Axis(k))
		}
	}
}

// Of equal tags the one that would finish first goes first.
//
// Catches: the heavier first.
func TestI4_LightCallsFirst(t *testing.T) {
	p := New(t0, Config{TPM: 600_000, MaxQueue: 10})
	heavy := p.Add(Root, Node{Weight: 1})
	light := p.Add(Root, Node{Weight: 1})
	p.axes[Tokens].pace.level = -1
	p.Offer(t0, Call{Leaf: heavy, Most: Cost{9000, 1}, MaxWait: time.Hour})
	p.Offer(t0, Call{Leaf: light, Most: Cost{100, 1}, MaxWait: time.Hour})
	if first, _, _ := p.next(true); first != light {
		t.Errorf("leaf %d is first, want the light one", first)
	}
}

// What a burst gave back is no lead: who returns then has no claim on it.
//
// Catches: a lead that the settles do not lower.
func TestLeadIsWhatCallsTook(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000, Burst: 10 * time.Second})
	a := w.leaf(Root, Node{Weight: 1}, 1000)
	b := w.leaf(Root, Node{Weight: 1}, 1000)
	w.run(2 * time.Minute)
	a.took = func(int64) int64 { return 50 }
	a.run = func() time.Duration { return 200 * time.Millisecond }
	for range 100 {
		w.offer(a)
	}
	w.run(time.Second)
	a.took = nil
	a.run = nil
	w.reset()
	a.keep = 8
	b.keep = 8
	w.run(30 * time.Second)
	if r := float64(b.got) / float64(a.got); r > 1.1 {
		t.Errorf("after a burst that took a twentieth, the other received %.2f of its", r)
	}
}

// Who comes and goes after another's burst has the lead once: no more than its fluid
// share of the whole time.
//
// Catches: lead at each return.
func TestLeadIsGivenOnce(t *testing.T) {
	const limit = 600_000
	w := newSim(t, 1, Config{TPM: limit, Burst: 10 * time.Second})
	a := w.leaf(Root, Node{Weight: 1}, 1000)
	b := w.leaf(Root, Node{Weight: 1}, 1000)
	w.run(2 * time.Minute)
	for range 100 {
		w.offer(a)
	}
	a.keep = 20
	w.run(5 * time.Second)
	w.reset()
	for range 55 {
		b.keep = 20
		w.run(500 * time.Millisecond)
		w.stop(b)
		w.run(500 * time.Millisecond)
	}
	part := float64(b.got) / (limit / 2 / 60 * 55)
	t.Logf("present half of the time: %.3f of its fluid share", part)
	if part > .75 {
		t.Errorf("present half of the time, it received %.3f of its fluid share", part)
	}
}

// A pool of slots alone shares them by how long they are occupied, whatever costs its calls declare, also none.
func TestShares_SlotsAlone(t *testing.T) {
	const leaves = 3
	for _, cost := range []Cost{{}, {Requests: 1}, {Tokens: 50}} {
		for _, runs := range [][leaves]int{{1, 1, 1}, {1, 1, 10}, {5, 1, 5}} {
			p := New(t0, Config{Slots: 4, MaxQueue: 1000})
			var nodes [leaves]NodeID
			for i, weight := range []Weight{4, 2, 1} {
				nodes[i] = p.Add(Root, Node{Weight: weight})
			}
			var queued, occupied [leaves]int
			of := map[Handle]int{}
			ends := map[int][]Handle{}
			tick := 0
			begin := func(h Handle) {
				leaf := of[h]
				run := runs[leaf] * 10
				ends[tick+run] = append(ends[tick+run], h)
				occupied[leaf] += run
			}
			for ; tick < 6000; tick++ {
				now := t0.Add(time.Duration(tick) * 6 * time.Second)
				for _, h := range ends[tick] {
					p.Settle(now, h, cost)
				}
				for leaf := range nodes {
					for queued[leaf] < 5 {
						h, ans := p.Offer(now, Call{Leaf: nodes[leaf], Most: cost, MaxWait: 100 * time.Hour})
						of[h] = leaf
						if ans.Verdict == Admitted {
							begin(h)
							continue
						}
						queued[leaf]++
					}
				}
				for _, h := range p.Pump(now, nil) {
					queued[of[h]]--
					begin(h)
				}
			}
			all := float64(occupied[0] + occupied[1] + occupied[2])
			for i, want := range []float64{4. / 7, 2. / 7, 1. / 7} {
				if got := float64(occupied[i]) / all; math.Abs(got-want) > 0.03 {
					t.Errorf("calls of %v minutes at a cost of %v: leaf %d has %.3f of the slots' time, %.3f is fair", runs, cost, i, got, want)
				}
			}
		}
	}
}

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
	small := w.leaf(Root, Node{Weight: 0.1, Floor: 100_000}, 500) // floor above share
	big := w.leaf(Root, Node{Weight: 4, Floor: 60_000}, 1000)     // share above floor
	org := w.p.Add(Root, Node{Weight: 0.1, Floor: 90_000})        // floor of an inner node
	a := w.leaf(org, Node{Weight: 1}, 700)
	b := w.leaf(org, Node{Weight: 2}, 700)
	deep := w.p.Add(Root, Node{Weight: 1})
	inner := w.leaf(deep, Node{Weight: 0.01, Floor: 40_000}, 400) // floor below an inner node
	rest := w.leaf(deep, Node{Weight: 1}, 1000)
	later := w.leaf(Root, Node{Weight: 0.1, Floor: 50_000}, 600) // floor of background calls
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
	org := w.p.Add(Root, Node{Weight: 0.001, Floor: 60_000})
	a := w.leaf(org, Node{Weight: 1, Floor: 60_000}, 500)
	b := w.leaf(org, Node{Weight: 1}, 500)
	other := w.leaf(Root, Node{Weight: 1}, 1000)
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
	s := w.leaf(Root, Node{Weight: 1}, 300)
	s.keep = 8
	b := &source{leaf: s.leaf, cost: 1700, keep: 3, call: Call{Background: true}}
	w.sources = append(w.sources, b)
	other := w.leaf(Root, Node{Weight: 1}, 1000)
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
		a := w.leaf(Root, Node{Weight: 1}, 500)
		b := w.leaf(Root, Node{Weight: 1, Credit: credit}, 500)
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
	a := w.leaf(Root, Node{Weight: 1}, 1000)
	b := w.leaf(Root, Node{Weight: 1}, 1000)
	a.keep = 4
	b.keep = 4
	w.run(time.Minute)
	// a takes 60,000 more than it declared: a debt of 60,000
	a.took = func(c int64) int64 { a.took = nil; return c + 60_000 }
	w.run(time.Second)
	w.reset()
	w.p.Update(a.leaf, Node{Weight: 4})
	w.run(5 * time.Minute)
	// of the sum S, a is to have (S+60,000)·4/5 - 60,000
	sum := float64(a.got + b.got)
	if want := (sum+60_000)*4/5 - 60_000; math.Abs(float64(a.got)-want) > 4000 {
		t.Errorf("with its debt and four times the weight it got %d, want %.0f", a.got, want)
	}
	if p := w.p.nodes[Root].inner; p.weights != 5000 {
		t.Errorf("the weights sum to %d", p.weights)
	}
}

// Who owes to siblings that wait stays until it is paid.
//
// Catches: Remove without a look at the tag.
func TestRemoveKeepsDebt(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000})
	a := w.leaf(Root, Node{Weight: 1}, 1000)
	b := w.leaf(Root, Node{Weight: 1}, 1000)
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
