package governor

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
)

// Whatever joins a line and leaves it: calls are in the order of their tags, those of
// one team in that of their arrival and one behind the other, and the sums are right.
func TestLine_OrderAndSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l line
		links := []link{
			{via: &tenant{name: "x"}, weight: escrow.WeightOne},
			{via: &tenant{name: "y"}, weight: 3 * escrow.WeightOne},
			{via: &tenant{name: "z"}, weight: 1},
		}
		arrived := map[*inLine]int{}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch n := len(l.calls); {
			case n == 0 || rapid.IntRange(0, 2).Draw(t, "what") == 0:
				w := &inLine{waiter: *newWaiter(), cost: ownCost{1, rapid.Int64Range(0, 100).Draw(t, "cost")}}
				arrived[w] = step
				l.join(w, rapid.SampledFrom([]*link{&links[0], &links[1], &links[2]}).Draw(t, "team"), whole/rapid.Int64Range(1, 1000).Draw(t, "limit"))
			case rapid.Bool().Draw(t, "served"):
				l.leave(l.calls[0], true)
			default:
				l.leave(l.calls[rapid.IntRange(0, n-1).Draw(t, "who")], false)
			}
			var sum ownCost
			counts := map[*tenant]int{}
			last := map[*tenant]*inLine{}
			for i, w := range l.calls {
				sum = sum.plus(w.cost, 1)
				counts[w.via]++
				if i > 0 && l.calls[i-1].tag > w.tag {
					t.Fatalf("place %d has tag %d, the one before it %d", i, w.tag, l.calls[i-1].tag)
				}
				if o := last[w.via]; o != nil && (arrived[o] > arrived[w] || w.tag != o.tag+o.part) {
					t.Fatalf("of one team came %d with tag %d + %d, and then %d with %d", arrived[o], o.tag, o.part, arrived[w], w.tag)
				}
				last[w.via] = w
			}
			if sum != l.cost {
				t.Fatalf("the calls cost %v, the line says %v", sum, l.cost)
			}
			for via, turn := range l.teams {
				if turn.calls != counts[via] {
					t.Fatalf("%d calls of %s wait, the line says %d", counts[via], via.name, turn.calls)
				}
				if w := last[via]; w != nil && turn.next != w.tag+w.part {
					t.Fatalf("the next of %s would start at %d, want %d", via.name, turn.next, w.tag+w.part)
				}
			}
		}
	})
}

// twoTeams is a tenant that may run one call at a time, with two teams.
func twoTeams(bound int, wait time.Duration) Config {
	return Config{
		Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: bound}},
		Tenants: []Tenant{
			{Name: "org", Weight: 1000, Concurrency: 1},
			{Name: "org/x", Weight: 1000, MaxWait: time.Hour},
			{Name: "org/y", Weight: 1000, MaxWait: wait},
		},
	}
}

// A team whose calls go away before their turn, because they may not wait for so long,
// has its share all the same.
func TestTeams_PayForNoCallThatDoesNotGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoTeams(1000, 3500*time.Millisecond))
		served := map[string]*atomic.Int64{"org/x": {}, "org/y": {}}
		ends := time.Now().Add(10 * time.Minute)
		var wg sync.WaitGroup
		for who, n := range served {
			for range 8 {
				wg.Go(func() {
					for time.Now().Before(ends) {
						l, rej := g.Acquire(t.Context(), demand(who, 1))
						if rej != nil {
							time.Sleep(time.Millisecond)
							continue
						}
						time.Sleep(time.Second)
						l.Settle(Usage{Output: 1})
						n.Add(1)
					}
				})
			}
		}
		wg.Wait()
		if x, y := served["org/x"].Load(), served["org/y"].Load(); y < 280 || x < 280 {
			t.Errorf("the team that waits got %d seconds, the one that gives up %d; want 300 each", x, y)
		}
	})
}

// One team cannot fill its tenant's line, so that another finds it full.
func TestTeams_NoneFillsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoTeams(10, time.Hour))
		first, _ := g.Acquire(t.Context(), demand("org", 1))
		var wg sync.WaitGroup
		var refused atomic.Int64
		for range 20 {
			wg.Go(func() {
				l, rej := g.Acquire(t.Context(), demand("org/x", 1))
				if rej != nil {
					refused.Add(1)
					if rej.Reason != ReasonQueueFull || rej.Tenant != "org/x" || rej.Used != 5 {
						t.Error(rej)
					}
				}
				l.Settle(Usage{})
			})
		}
		synctest.Wait()
		wg.Go(func() {
			l, rej := g.Acquire(t.Context(), demand("org/y", 1))
			if rej != nil {
				t.Errorf("a team that had nobody in line was refused: %v", rej)
			}
			l.Settle(Usage{})
		})
		synctest.Wait()
		first.Settle(Usage{})
		wg.Wait()
		if n := refused.Load(); n != 15 {
			t.Errorf("%d of 20 calls were refused, want 15: half of the line is for others", n)
		}
	})
}
