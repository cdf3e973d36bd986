package governor

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
				l, rej := Rejected(g.Acquire(t.Context(), demand("org/x", 1)))
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
			l, rej := Rejected(g.Acquire(t.Context(), demand("org/y", 1)))
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
