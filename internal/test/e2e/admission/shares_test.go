// Package admission tests whether calls are let in as the limits, budgets and shares say, through the
// whole stack.
package admission

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fourTenants have weights 4:2:1:1 and may wait.
func fourTenants() []tenants.Tenant {
	var list []tenants.Tenant
	for i, weight := range []int64{4, 2, 1, 1} {
		t := harness.Tenant(string(rune('a'+i)), weight)
		t.MaxWait = time.Hour
		list = append(list, t)
	}
	return list
}

// keepBusy keeps so many calls of a tenant in the air until ctx ends.
func keepBusy(ctx context.Context, wg *sync.WaitGroup, workers int, call func(context.Context)) {
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				call(ctx)
			}
		})
	}
}

func received(s *harness.Stack) (sum [4]int64) {
	for i := range sum {
		name := string(rune('a' + i))
		sum[i] = s.Charged(name, "input") + s.Charged(name, "output")
	}
	return sum
}

// fairness is what the admin side says of how a pool was shared.
type fairness struct {
	Jain         float64 `json:"jain_index"`
	Deviation    float64 `json:"max_deviation_ratio"`
	Unused       int64   `json:"unused_while_waiting_tokens"`
	TenantsTotal int     `json:"tenants_total"`
	Tenants      []struct {
		Name       string
		Weight     float64
		Guaranteed float64 `json:"guaranteed_ratio"`
		Entitled   float64 `json:"entitled_ratio"`
		Received   float64 `json:"received_ratio"`
		Demand     float64 `json:"demand_ratio"`
		Running    int
		Queued     int
		OldestWait float64 `json:"oldest_wait_seconds"`
		Borrowed   int64   `json:"borrowed_tokens"`
		Lent       int64   `json:"lent_tokens"`
	}
}

// Two of four tenants flood a pool, one asks for little, and one for nothing: the snapshot and the metrics say who was entitled to what, and
// who lent whom. When the idle one returns it is served within half a second.
func TestFairnessThroughTheStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tpm = 600_000
		w := harness.World{Pool: harness.Pool(tpm, 0, 0), Tenants: fourTenants(), Mock: mock.Config{TPM: tpm}}
		w.Pool.HeadroomPPM = 0
		s := harness.New(t, w)
		body := harness.Chat(false, 1000, `,"mock":{"output_tokens":985}`)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for name, workers := range map[string]int{"a": 12, "b": 12} {
			keepBusy(ctx, &wg, workers, func(ctx context.Context) { s.Call(ctx, name, body) })
		}
		wg.Go(func() { // a tenth of the pool
			for range time.Tick(time.Second) {
				if ctx.Err() != nil {
					return
				}
				s.Call(ctx, "c", body)
			}
		})
		time.Sleep(3*time.Minute + time.Second/2)
		synctest.Wait()

		var got struct {
			Pools []struct {
				Fairness    fairness
				LeasesTotal int `json:"leases_total"`
				Leases      []struct {
					Tenant, State string
					AgeSeconds    float64 `json:"age_seconds"`
				}
			}
		}
		s.Admin("/api/v1/snapshot", &got)
		p := got.Pools[0]
		f := p.Fairness
		if f.Jain < .995 || f.Deviation > .05 || f.Unused > tpm/20 || f.TenantsTotal != 4 || len(f.Tenants) != 4 {
			t.Errorf("a pool that is shared fairly shows as %+v", f)
		}
		for i, want := range []struct{ guaranteed, entitled float64 }{{.5, .6}, {.25, .3}, {.125, .1}, {.125, 0}} {
			x := f.Tenants[i]
			if math.Abs(x.Guaranteed-want.guaranteed) > 1e-6 || math.Abs(x.Entitled-want.entitled) > .02 || math.Abs(x.Received-want.entitled) > .02 {
				t.Errorf("%+v, want %+v", x, want)
			}
		}
		a := f.Tenants[0]
		c := f.Tenants[2]
		d := f.Tenants[3]
		if a.Queued == 0 || a.OldestWait <= 0 || a.Demand <= a.Received || d.Queued+d.Running != 0 || d.Demand != 0 {
			t.Errorf("of who waits: %+v, and of who does not: %+v", a, d)
		}
		if d.Lent < 2*tpm/8 || a.Borrowed < tpm/8 || a.Lent != 0 || d.Borrowed != 0 || c.Borrowed > c.Lent {
			t.Errorf("lent and borrowed: a %+v, c %+v, d %+v", a, c, d)
		}
		if p.LeasesTotal != len(p.Leases) || p.LeasesTotal < 20 {
			t.Errorf("%d leases of %d are listed", len(p.Leases), p.LeasesTotal)
		}
		for i := 1; i < len(p.Leases); i++ {
			if p.Leases[i].AgeSeconds > p.Leases[i-1].AgeSeconds {
				t.Errorf("leases are not in the order of their age: %+v", p.Leases)
				break
			}
		}
		var all struct {
			Pools []struct {
				Name string
				fairness
			}
		}
		s.Admin("/api/v1/fairness", &all)
		if x := all.Pools[0]; x.Name != "p" || len(x.Tenants) != 4 || x.Tenants[0].Received != a.Received {
			t.Errorf("/api/v1/fairness says %+v", x)
		}
		for name, want := range map[string]float64{"llmgov_borrowed_tokens_total": float64(a.Borrowed), "llmgov_lent_tokens_total": 0} {
			if n := s.Sum(name, map[string]string{"tenant": "a", "pool": "p"}); math.Abs(float64(n)-want) > 1 {
				t.Errorf("%s is %d, and in the snapshot %g", name, n, want)
			}
		}
		back := time.Now()
		s.Call(t.Context(), "d", body).WantOK(t, "the idle tenant")
		if waited := time.Since(back); waited > 500*time.Millisecond {
			t.Errorf("the idle tenant waited %v when it returned", waited)
		}
		stop()
		wg.Wait()
		s.CheckIdle()
		if st := s.Mock.Stats(); st.Refused != 0 || st.WindowTokensPeak > tpm {
			t.Errorf("the model server refused %d; its fullest minute had %d tokens of %d", st.Refused, st.WindowTokensPeak, tpm)
		}
	})
}

// A lease whose answer falls silent is taken back, and counted.
func TestExpiredLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 2), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, StreamIdle: 5 * time.Second})
		s.Call(t.Context(), "a", harness.Chat(true, 50, `,"mock":{"output_tokens":20,"stall_after":3}`))
		s.Call(t.Context(), "a", harness.Chat(true, 50, "")).WantOK(t)
		if n := s.Sum("llmgov_lease_expired_total", nil); n != 1 {
			t.Errorf("%d leases are counted as expired, want 1", n)
		}
	})
}
