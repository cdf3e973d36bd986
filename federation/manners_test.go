package federation

import (
	"math"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/testkit"
)

// everywhere makes a party for each tenant at each site.
func everywhere(f func(site, leaf int) party) (all []party) {
	for site := range 4 {
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
	weights := []escrow.Weight{8000, 4000, 2000, 1000}
	alike := func(m manner) []party {
		return everywhere(func(site, leaf int) party { return party{n: 20, manner: m} })
	}
	uneven := func(m manner) []party {
		return everywhere(func(site, leaf int) party { return party{n: []int{48, 24, 12, 12}[(site+leaf)%4], manner: m} })
	}
	leave := func(m manner) []party {
		return everywhere(func(site, leaf int) party {
			p := party{n: 30, manner: m}
			if site < 2 && leaf < 2 {
				p.to = time.Minute
			}
			return p
		})
	}
	kinds := []manner{hammer, patient, sdk, plain}
	for _, c := range []struct {
		name      string
		parties   []party
		off       float64 // by which part of its share a tenant may be off
		light     float64 // calls a second that are all the first tenant asks for
		placeless bool    // no places are kept
		quick     bool    // shown in a quick run as well
	}{
		{name: "patient", parties: uneven(patient), off: 0.005},
		{name: "as an SDK", parties: uneven(sdk), off: 0.005},
		{name: "as an SDK, and some leave", parties: leave(sdk), off: 0.02},
		{name: "as an SDK, and none waits", quick: true, parties: uneven(denied), off: 0.005},
		{name: "when told, in milliseconds", parties: uneven(polite), off: 0.01},
		{name: "when told, in seconds", quick: true, parties: uneven(plain), off: 0.01},
		{name: "hammer", parties: alike(hammer), off: 0.02},
		{name: "hammer, more of them here than there", quick: true, parties: uneven(hammer), off: 0.02},
		{name: "hammer, and some leave", parties: leave(hammer), off: 0.02},
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
			f := newFleet(limit, weights, ms, 18*ms, 35*ms, 55*ms)
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
			due := all - c.light
			of := escrow.Weight(15_000)
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
					t.Errorf("tenant %d got %.2f calls a second, and is due %.2f", leaf, rate, want)
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
			f := newFleetOf(escrow.Axis(axis), limit, []escrow.Weight{1000, 3000}, make([]time.Duration, n)...)
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
