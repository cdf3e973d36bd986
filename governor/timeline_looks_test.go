package governor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/internal/testkit"
)

// played is what a recorded governor decides of a course of calls by a seed, where
// somebody looks at random, or nobody ever does.
func played(t *testing.T, seed uint64, looked bool) []string {
	clock := &late{now: time.Unix(1_000_000, 0)}
	log := &told{since: clock.now}
	accounting := escrow.AdmitMax
	if seed%2 == 0 {
		accounting = escrow.Accounting(seed/2%2 + 1)
	}
	g := must(t, Config{
		Pools: []Pool{
			{Name: "p", TPM: 61_003, RPM: 307, Concurrency: 7, MaxQueue: 9, Burst: 5 * time.Second, TicketWait: time.Second, Accounting: accounting},
			{Name: "q", TPM: 20_011, MaxQueue: 9},
		},
		Tenants: []Tenant{
			{Name: "a", Weight: 1000, MaxWait: 10 * time.Second, TPM: 30_001, RPM: 111, Credit: 10 * time.Second},
			{Name: "b", Weight: 3000, MaxWait: 3 * time.Second, Floor: 5000, Concurrency: 3},
			{Name: "c", Weight: 700, MaxWait: 20 * time.Second, Background: true, Budgets: []Budget{{Unit: UnitTokens, Per: budget.Hour, Limit: 40_000}}},
		},
		Clock: clock, Observer: log, Recorded: true,
	})
	t.Cleanup(g.Drain)
	rng := rand.New(rand.NewPCG(seed, 1))
	eyes := rand.New(rand.NewPCG(seed, 2))
	var leases []Lease
	var out []string
	for i := range 600 {
		step := time.Duration(rng.Int64N(int64(200 * time.Millisecond)))
		next := clock.now.Add(step)
		for looked && eyes.IntN(2) == 0 {
			clock.now = clock.now.Add(time.Duration(eyes.Int64N(int64(next.Sub(clock.now)) + 1)))
			g.State()
			g.Standing("a", "p")
			g.Explain(Request{Tenant: string('a' + rune(eyes.IntN(3))), Pool: "p", Input: 100, Output: 900})
			if len(leases) > 0 {
				leases[eyes.IntN(len(leases))].Remaining()
			}
		}
		clock.now = next
		g.Throttle("nowhere", nil) // so that those are known who are let go by then
		switch k := rng.IntN(10); {
		case k < 5:
			req := Request{
				ID: fmt.Sprint(i), Tenant: string('a' + rune(rng.IntN(3))), Pool: []string{"p", "p", "q"}[rng.IntN(3)],
				Input: rng.Int64N(800), Output: rng.Int64N(900), Stream: rng.IntN(2) == 0,
			}
			g.Ask(req, func(l Lease, rej *Rejection) {
				if rej == nil {
					leases = append(leases, l)
				}
				out = append(out, fmt.Sprint(req.ID, " ", g.line.now.Sub(log.since), " ", l.Waited, " ", rej))
			})
		case k < 9 && len(leases) > 0:
			n := rng.IntN(len(leases))
			if k == 5 {
				leases[n].Progress(rng.Int64N(900))
				break
			}
			leases[n].Settle(Usage{Input: rng.Int64N(800), Output: rng.Int64N(900)})
			leases = slices.Delete(leases, n, n+1)
		case k == 9 && rng.IntN(5) == 0:
			g.Throttle("p", []Cut{{Part: rng.Int64N(Whole), Until: g.line.now.Add(time.Duration(rng.Int64N(int64(5 * time.Second))))}})
		}
	}
	return out
}

// Who looks changes nothing of what is decided.
func TestTimeline_LooksChangeNothing(t *testing.T) {
	for seed := range uint64(testkit.Rounds(5, 40)) {
		want := played(t, seed, false)
		got := played(t, seed, true)
		if len(want) < 100 {
			t.Fatalf("seed %d: only %d decisions", seed, len(want))
		}
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				t.Fatalf("seed %d: decision %d of %d is %s, and %s where somebody looks", seed, i, len(want), want[i], got[i])
			}
		}
	}
}
