package federation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fleet is several pools of one capacity, each with its node, and one account, in
// virtual time of 10 ms steps.
type fleet struct {
	rng     *rand.Rand
	now     time.Duration
	account *Account
	sites   []*site
	mail    []letter
	used    []use
	beats   int
	axis    escrow.Axis
	pumped  func(site int, h escrow.Handle) // a call that waited goes
}

type site struct {
	delay  time.Duration
	pool   *escrow.Pool
	node   *Node
	leaves []escrow.NodeID
	tree   []Claim
	limits Amounts
}

type letter struct {
	at    time.Duration
	site  int
	beat  *Beat
	reply *Reply
}

type use struct {
	at   time.Duration
	cost int64
}

// newFleet is one whose limit is of an axis.
func newFleet(k escrow.Axis, limit int64, weights []escrow.Weight, delays ...time.Duration) *fleet {
	f := &fleet{axis: k, rng: rand.New(rand.NewPCG(1, 2)), account: NewAccount(DefaultRules(), 1_000_000, Options{Fresh: true})}
	for i, d := range delays {
		s := &site{delay: d}
		s.limits[k] = limit
		s.pool = escrow.New(t0, escrow.Config{TPM: s.limits[escrow.Tokens], RPM: s.limits[escrow.Requests], Burst: 10 * time.Second, MaxQueue: 100_000, Shared: true, TicketWait: 10 * time.Second})
		s.node = NewNode(Config{Name: fmt.Sprint("n", i), Region: "r", Instance: fmt.Sprint("i", i), Rules: DefaultRules(), Seed: uint64(i)})
		for j, w := range weights {
			id := s.pool.Add(escrow.Root, escrow.Node{Weight: w})
			s.leaves = append(s.leaves, id)
			s.tree = append(s.tree, Claim{ID: id, Path: fmt.Sprint("t", j), Parent: -1, Weight: w, Leaf: true})
		}
		f.sites = append(f.sites, s)
	}
	return f
}

func (s *site) report(now time.Time) *Report {
	r := &Report{Tree: Asked(s.pool, s.tree)}
	r.Survey(s.pool, now)
	r.Limits = s.limits
	r.Burst = Amounts{s.limits[0] / 6, s.limits[1] / 6}
	return r
}

func (f *fleet) step() {
	f.now += 10 * time.Millisecond
	now := t0.Add(f.now)
	kept := f.mail[:0]
	var due []letter
	for _, l := range f.mail {
		if l.at <= f.now {
			due = append(due, l)
		} else {
			kept = append(kept, l)
		}
	}
	f.mail = kept
	for _, l := range due {
		s := f.sites[l.site]
		if l.beat != nil {
			r := f.account.Beat(1_000_000+f.now.Milliseconds(), "", len(f.sites), l.beat)
			f.mail = append(f.mail, letter{f.now + s.delay, l.site, nil, &r})
			continue
		}
		f.do(l.site, s.node.Step(now, l.reply))
	}
	for i, s := range f.sites {
		if s.node.Due(now, Pressed(s.pool, now)) {
			f.beats++
			f.do(i, s.node.Step(now, s.report(now)))
		}
		for _, h := range s.pool.Pump(now, nil) {
			f.pumped(i, h)
		}
	}
}

func (f *fleet) do(i int, commands []Command) {
	now := t0.Add(f.now)
	s := f.sites[i]
	for _, c := range commands {
		switch c := c.(type) {
		case Send:
			f.mail = append(f.mail, letter{f.now + s.delay, i, c.Beat, nil})
		case Allow:
			s.pool.Allow(now, c.Axis, c.Allowance)
		case Share:
			s.pool.Share(c.ID, c.PPM)
		}
	}
}

// peak is the largest rolling minute, as a part of the limit.
func (f *fleet) peak(limit int64) float64 {
	sum := int64(0)
	most := int64(0)
	from := 0
	for _, u := range f.used {
		sum += u.cost
		for f.used[from].at <= u.at-escrow.Window {
			sum -= f.used[from].cost
			from++
		}
		most = max(most, sum)
	}
	return float64(most) / float64(limit)
}

// everywhere makes a party for each tenant at each of four sites.
func everywhere(f func(site, leaf int) party) []party { return everywhereOf(4, f) }

func everywhereOf(sites int, f func(site, leaf int) party) (all []party) {
	for site := range sites {
		for leaf := range 4 {
			p := f(site, leaf)
			p.site = site
			p.leaf = leaf
			all = append(all, p)
		}
	}
	return all
}

// TestFleet_Manners: whatever callers do when they are refused, and wherever there are more
// of them, each tenant gets from all nodes together what it is due by weight.
func TestFleet_Manners(t *testing.T) {
	const limit = 3_000_000
	weights := []escrow.Weight{8, 4, 2, 1}
	alike := func(m manner) []party {
		return everywhere(func(site, leaf int) party { return party{n: 20, manner: m} })
	}
	uneven := func(m manner) []party {
		return everywhere(func(site, leaf int) party { return party{n: []int{48, 24, 12, 12}[(site+leaf)%4], manner: m} })
	}
	leave := func(m manner, sites int, leaves func(site, leaf int) bool) []party {
		return everywhereOf(sites, func(site, leaf int) party {
			p := party{n: 120 / sites, manner: m}
			if leaves(site, leaf) {
				p.to = time.Minute
			}
			return p
		})
	}
	two := func(site, leaf int) bool { return site < 2 && leaf < 2 }
	kinds := []manner{hammer, patient, sdk, plain}
	for _, c := range []struct {
		name      string
		parties   []party
		off       float64 // by which part of its share a tenant may be off
		light     float64 // calls a second that are all the first tenant asks for
		placeless bool    // no places are kept
		quick     bool    // shown in a quick run as well
		seeds     uint64  // how many are tried; 0 is one
	}{
		{name: "patient", parties: uneven(patient), off: 0.005},
		{name: "as an SDK", parties: uneven(sdk), off: 0.005},
		{name: "as an SDK, and some leave", parties: leave(sdk, 4, two), off: 0.02},
		{name: "as an SDK, and none waits", quick: true, parties: uneven(denied), off: 0.005},
		{name: "when told, in milliseconds", parties: uneven(polite), off: 0.01},
		{name: "when told, in seconds", quick: true, parties: uneven(plain), off: 0.01},
		{name: "hammer", parties: alike(hammer), off: 0.02},
		{name: "hammer, more of them here than there", quick: true, parties: uneven(hammer), off: 0.02},
		{name: "hammer, and some leave", parties: leave(hammer, 4, two), off: 0.02, seeds: 8},
		{name: "hammer, and one leaves each of four", parties: leave(hammer, 4, func(site, leaf int) bool { return site == leaf }), off: 0.02, seeds: 2},
		{name: "hammer, and some leave half of eight", parties: leave(hammer, 8, func(site, leaf int) bool { return site < 4 && leaf < 2 }), off: 0.02, seeds: 2},
		{name: "hammer, and one leaves all but one of three", parties: leave(hammer, 3, func(site, leaf int) bool { return site < 2 && leaf == 0 }), off: 0.025, seeds: 4},
		{name: "when told, in seconds, and some leave", parties: leave(plain, 4, two), off: 0.02, seeds: 2},
		{name: "hammer, and one tenant needs less", quick: true, off: 0.02, light: 19.5, parties: everywhere(func(site, leaf int) party {
			if leaf == 0 {
				return party{n: 10, manner: hammer, run: 2 * time.Second}
			}
			return party{n: 20, manner: hammer}
		})},
		{name: "hammer, and none waits", parties: alike(spoilt), off: 0.04},
		{name: "hammer, and no places are kept", parties: uneven(hammer), off: 0.02, placeless: true},
		{name: "a node where none waits, and no places are kept", quick: true, off: 0.02, placeless: true, parties: everywhere(func(site, leaf int) party {
			switch {
			case (site == 3) != (leaf == 0):
				return party{}
			case site == 3:
				return party{n: 60, manner: spoilt, from: 30 * time.Second}
			}
			return party{n: 60, manner: patient}
		})},
		{name: "some hammer, some wait", parties: everywhere(func(site, leaf int) party { return party{n: 20, manner: kinds[(site+leaf)%4]} }), off: 0.02},
		{name: "some tenants hammer, some wait", parties: everywhere(func(site, leaf int) party { return party{n: 20, manner: kinds[leaf]} }), off: 0.02},
		{name: "some hammer at one node, none at others", off: 0.02, parties: everywhere(func(site, leaf int) party {
			if site == 0 && leaf == 3 {
				return party{n: 200, manner: spoilt}
			}
			return party{n: 20, manner: patient}
		})},
		{name: "each tenant at a node of its own", quick: true, off: 0.02, parties: everywhere(func(site, leaf int) party {
			if site != leaf {
				return party{}
			}
			return party{n: 60, manner: kinds[leaf]}
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !c.quick {
				testkit.Long(t, "simulates minutes of each manner")
			}
			const ms = time.Millisecond
			sites := 1 + slices.MaxFunc(c.parties, func(a, b party) int { return a.site - b.site }).site
			delays := []time.Duration{ms, 18 * ms, 35 * ms, 55 * ms, 2 * ms, 20 * ms, 30 * ms, 50 * ms}[:sites]
			for seed := range max(1, c.seeds) {
				f := newFleet(escrow.Tokens, limit, weights, delays...)
				f.rng = rand.New(rand.NewPCG(1, 2+seed))
				if c.placeless {
					for _, s := range f.sites {
						s.pool.Configure(t0, escrow.Config{TPM: limit, Burst: 10 * time.Second, MaxQueue: 100_000, Shared: true})
					}
				}
				w := newCrowd(f, c.parties)
				w.since = 80 * time.Second
				w.until(w.since + 2*time.Minute)
				seconds := (w.now - w.since).Seconds()
				rates := make([]float64, len(weights))
				all := 0.0
				for leaf, sites := range w.got {
					for _, n := range sites {
						rates[leaf] += float64(n) / seconds
					}
					all += rates[leaf]
				}
				if peak := f.peak(limit); peak > 1 {
					t.Errorf("a rolling minute used %.4f of the limit", peak)
				}
				if used := all * callCost * 60 / limit; used < 0.985 {
					t.Errorf("only %.4f of the limit was used", used)
				}
				if level := f.account.Fill[escrow.Tokens].Level; level > limit/60 {
					t.Errorf("there is a burst of %d left of a limit that is all used", level)
				}
				if most := 1.2 * float64(sites) * w.now.Seconds(); float64(w.beats) > most {
					t.Errorf("%d beats, of which %.0f would be plenty: what waits has been told", w.beats, most)
				}
				due := all - c.light
				of := escrow.Weight(15)
				if c.light > 0 {
					of -= weights[0]
				}
				for leaf, rate := range rates {
					want := due * float64(weights[leaf]) / float64(of)
					if leaf == 0 && c.light > 0 {
						want = c.light
					}
					t.Logf("tenant %d: %.1f calls a second, is due %.1f; by node %v", leaf, rate, want, w.got[leaf])
					if math.Abs(rate/want-1) > c.off {
						t.Errorf("seed %d: tenant %d got %.2f calls a second, and is due %.2f", seed, leaf, rate, want)
					}
				}
			}
		})
	}
}

// TestFleet_SameFlood: a flood is served as much by one node as by two, four or eight,
// whether the limit is of tokens or of requests.
func TestFleet_SameFlood(t *testing.T) {
	for axis, limit := range []int64{600_000, 1200} {
		one := 0.0
		for _, n := range []int{1, 2, 8, 4}[:testkit.Rounds(3, 4)] {
			f := newFleet(escrow.Axis(axis), limit, []escrow.Weight{1, 3}, make([]time.Duration, n)...)
			var parties []party
			for site := range n {
				f.sites[site].delay = 2 * time.Millisecond
				for leaf := range 2 {
					parties = append(parties, party{site: site, leaf: leaf, n: 6, manner: hammer})
				}
			}
			f.account = NewAccount(DefaultRules(), 1_000_000, Options{})
			w := newCrowd(f, parties)
			w.until(130 * time.Second)
			served := 0.0
			for _, sites := range w.got {
				for _, n := range sites {
					served += float64(n)
				}
			}
			if n == 1 {
				one = served
			}
			t.Logf("axis %d: %d nodes serve %.0f calls, %.4f of what one does", axis, n, served, served/one)
			if math.Abs(served/one-1) > 0.0075 {
				t.Errorf("axis %d: %d nodes serve %.0f calls, and one %.0f", axis, n, served, one)
			}
			if peak := f.peak(limit); peak > 1 {
				t.Errorf("axis %d: a rolling minute of %d nodes used %.4f of the limit", axis, n, peak)
			}
			// Less than a unit of each beat does not add up.
			if level := f.account.Fill[axis].Level; level < -limit/60 {
				t.Errorf("axis %d: what %d nodes may hand out at once is %d, after two minutes in which they used what there was", axis, n, level)
			}
		}
	}
}

// manner is how callers behave: how long they are ready to wait, and what they do when they
// are refused.
type manner struct {
	wait  time.Duration
	pause time.Duration // until they ask again, whatever they are told
	count bool          // they count their retries, as SDKs do
	whole bool          // they know only of whole seconds
}

var (
	patient = manner{wait: time.Hour}
	sdk     = manner{wait: 2 * time.Second, count: true}
	polite  = manner{wait: 2 * time.Second}
	plain   = manner{wait: 2 * time.Second, whole: true}
	denied  = manner{count: true}
	hammer  = manner{wait: 2 * time.Second, pause: 50 * time.Millisecond}
	spoilt  = manner{pause: 50 * time.Millisecond}
)

// party is n callers of one tenant at one site, each of which asks for one call after the
// other, from a time until another.
type party struct {
	site, leaf, n int
	manner
	run      time.Duration // of a call
	from, to time.Duration
}

// caller is one of a party.
type caller struct {
	party
	at    time.Duration // when it does something
	queue escrow.Handle
	waits bool
	tries int
}

// crowd are callers at the sites of a fleet.
type crowd struct {
	*fleet
	callers []*caller
	waiting []map[escrow.Handle]*caller // by site
	since   time.Duration
	got     [][]int64 // calls since then, by leaf and site
}

// callCost is in tokens.
const callCost = 490

func newCrowd(f *fleet, parties []party) *crowd {
	c := &crowd{fleet: f}
	for _, s := range f.sites {
		c.waiting = append(c.waiting, map[escrow.Handle]*caller{})
		c.got = make([][]int64, len(s.leaves))
	}
	for i := range c.got {
		c.got[i] = make([]int64, len(f.sites))
	}
	for _, p := range parties {
		for range p.n {
			c.callers = append(c.callers, &caller{party: p, at: p.from + time.Duration(c.rng.Int64N(int64(time.Second)))})
		}
	}
	f.pumped = func(site int, h escrow.Handle) {
		x := c.waiting[site][h]
		delete(c.waiting[site], h)
		c.serve(x, h)
	}
	return c
}

func (c *crowd) until(end time.Duration) {
	for c.now < end {
		for _, x := range c.callers {
			if c.now >= x.at {
				c.turn(x)
			}
		}
		c.step()
	}
}

// turn lets a caller ask, or tire of waiting.
func (c *crowd) turn(x *caller) {
	s := c.sites[x.site]
	now := t0.Add(c.now)
	if x.waits {
		delete(c.waiting[x.site], x.queue)
		x.waits = false
		ans, _ := s.pool.Refuse(now, x.queue, 0)
		c.refuse(x, ans)
		return
	}
	if x.to > 0 && c.now > x.to {
		x.at = time.Hour
		return
	}
	call := escrow.Call{Leaf: s.leaves[x.leaf], Most: escrow.Cost{callCost, 1}, MaxWait: x.wait}
	if x.count {
		call.Claim.Retry = escrow.RetryFirst + escrow.Retry(min(x.tries, 1))
	}
	h, ans := s.pool.Offer(now, call)
	switch ans.Verdict {
	case escrow.Admitted:
		c.serve(x, h)
	case escrow.Queued:
		x.waits = true
		x.queue = h
		x.at = c.now + ans.Patience
		if x.wait > 0 { // as governors have it
			x.at = c.now + x.wait
		}
		c.waiting[x.site][h] = x
	default:
		c.refuse(x, ans)
	}
}

func (c *crowd) refuse(x *caller, ans escrow.Answer) {
	x.tries++
	wait := ans.Wait
	if x.whole {
		wait = (wait + time.Second - 1).Truncate(time.Second)
	}
	if x.pause == 0 {
		x.at = c.now + wait + 5*time.Millisecond + time.Duration(c.rng.Int64N(int64(30*time.Millisecond)))
	} else {
		x.at = c.now + x.pause
	}
}

func (c *crowd) serve(x *caller, h escrow.Handle) {
	s := c.sites[x.site]
	cost := s.pool.CostOf(int(h.Slot))
	c.used = append(c.used, use{c.now, cost[c.axis]})
	if c.now > c.since {
		c.got[x.leaf][x.site]++
	}
	s.pool.Settle(t0.Add(c.now), h, cost)
	x.waits = false
	x.tries = 0
	x.at = c.now + x.run + 10*time.Millisecond + time.Duration(c.rng.Int64N(int64(20*time.Millisecond)))
}
