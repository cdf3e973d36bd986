package governor

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bandsSite is a pool of 20 slots, of which calls of the lowest band leave 5 free.
func bandsSite(t *testing.T) *Governor {
	t.Helper()
	return must(t, Config{
		Pools: []Pool{{Name: "p", Concurrency: 20, HoldBackPPM: 250_000, MaxQueue: 1000}},
		Tenants: []Tenant{
			{Name: "chat", Weight: 3000, MaxWait: time.Hour},
			{Name: "batch", Weight: 1000, MaxWait: time.Hour, Background: true},
			{Name: "trial", Weight: 1000, Below: 9},
		},
	})
}

// TestBands_Explained: a call that keeps out of the last slots is told so, and so is who asks why; a call of a higher band finds one.
func TestBands_Explained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := bandsSite(t)
		calls := callsOf{Governor: g}
		defer calls.settle()
		for n := range 15 {
			if rej := calls.take(t, "trial"); rej != nil {
				t.Fatalf("with %d of 20 slots in use: %v", n, rej)
			}
		}
		rej := calls.take(t, "trial")
		if rej == nil || rej.Limit != 15 || rej.Used != 15 || rej.Reason != ReasonConcurrency || !strings.Contains(rej.Error(), "hold_back") {
			t.Fatalf("in the last slots a call gets %+v: %v", rej, rej)
		}
		o, _ := g.Explain(Request{Tenant: "trial", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == axisHoldBack })
		if i < 0 || o.Checks[i].Limit != 15 || o.Checks[i].Used != 15 || o.Refused == nil || !o.Checks[i].Of(o.Refused) {
			t.Errorf("in the last slots the checks are %+v, refused by %+v", o.Checks, o.Refused)
		}
		for range 5 {
			if rej = calls.take(t, "chat"); rej != nil {
				t.Errorf("a call of the highest band is refused: %v", rej)
			}
		}
	})
}

// TestBands_EntitledIsReceived: a background tenant in the lowest band gets what it is entitled to within 3 %: beside another that always has
// calls waiting its share by weight, and alone what its band may use, which is all that it is entitled to.
func TestBands_EntitledIsReceived(t *testing.T) {
	for _, c := range []struct {
		what    string
		workers map[string]int
		batch   float64
	}{
		{"beside another", map[string]int{"chat": 40, "batch": 30}, 0.25},
		{"alone", map[string]int{"batch": 30}, 0.75},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := bandsSite(t)
				end := time.Now().Add(8 * time.Minute)
				var calls sync.WaitGroup
				for tenant, workers := range c.workers {
					for i := range workers {
						calls.Go(func() {
							for time.Now().Before(end) {
								l, rej := g.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Model: "m"})
								if rej != nil {
									t.Errorf("%s is refused: %v", tenant, rej)
									return
								}
								time.Sleep(time.Second + time.Duration(17*(i%30))*time.Millisecond)
								l.Settle(Usage{Output: 1})
							}
						})
					}
				}
				received, entitled := 0.0, 0.0
				const minutes = 6
				time.Sleep(time.Minute)
				for range minutes {
					time.Sleep(time.Minute)
					for _, s := range g.State().Pools[0].Shares {
						if s.Tenant == "batch" {
							received += s.Received / minutes
							entitled += s.Entitled / minutes
						}
					}
				}
				t.Logf("it received %.4f of the pool, and was entitled to %.4f", received, entitled)
				if math.Abs(received/c.batch-1) > 0.03 || math.Abs(received/entitled-1) > 0.03 {
					t.Errorf("it received %.4f of the pool and was entitled to %.4f, want %.2f of both", received, entitled, c.batch)
				}
				calls.Wait()
			})
		})
	}
}

// callsOf are calls of a governor's pool p that run.
type callsOf struct {
	*Governor
	leases []Lease
}

// take begins a call, if it is not refused.
func (c *callsOf) take(t *testing.T, tenant string) *Rejection {
	l, rej := c.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Model: "m"})
	if rej == nil {
		c.leases = append(c.leases, l)
	}
	return rej
}

// settle ends them all.
func (c *callsOf) settle() {
	for _, l := range c.leases {
		l.Settle(Usage{Output: 1})
	}
}
