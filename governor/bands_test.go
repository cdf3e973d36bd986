package governor

import (
	"math"
	"slices"
	"strings"
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
				batch := sharesUnder(t, bandsSite(t), 6, c.workers, func(worker int) time.Duration {
					return time.Second + time.Duration(17*(worker%30))*time.Millisecond
				})["batch"]
				t.Logf("it received %.4f of the pool, and was entitled to %.4f", batch.Received, batch.Entitled)
				if math.Abs(batch.Received/c.batch-1) > 0.03 || math.Abs(batch.Received/batch.Entitled-1) > 0.03 {
					t.Errorf("it received %.4f of the pool and was entitled to %.4f, want %.2f of both", batch.Received, batch.Entitled, c.batch)
				}
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
	l, rej := Rejected(c.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Model: "m"}))
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
