package admission

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/lab/plan"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// mixedTenants are those of the scenario s2, of which the backlogged ones wait, and have
// a limit of their own.
func mixedTenants(tpm int64) []tenants.Tenant {
	list := fourTenants()
	for i := range list {
		list[i].MaxWait = []time.Duration{0, 500 * time.Millisecond, 3 * time.Second, 8 * time.Second}[i]
		if i >= 2 {
			list[i].TPM = tpm
		}
	}
	return list
}

// mixedTraffic is that of s2: two tenants that ask at a rate, below their shares, and two
// that take what they get. Half of the calls are streams, and some clients hang up.
func mixedTraffic(s *harness.Stack, lasts time.Duration) {
	ctx, stop := context.WithTimeout(s.T.Context(), lasts)
	defer stop()
	var wg sync.WaitGroup
	send := func(ctx context.Context, r *rand.Rand, name string) {
		n := min(800, max(5, int64(100*math.Exp(0.8*r.NormFloat64()-0.32))))
		out := max(1, n/2)
		if r.IntN(12) == 0 {
			var gone context.CancelFunc
			ctx, gone = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Millisecond)
			defer gone()
		}
		s.Call(ctx, name, harness.Chat(r.IntN(2) == 0, int(n), `,"mock":{"output_tokens":`+strconv.FormatInt(out, 10)+`}`))
	}
	for i, rate := range []float64{1, 1.25} {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				time.Sleep(time.Duration(r.ExpFloat64() / rate * float64(time.Second)))
				seed := r.Uint64()
				wg.Go(func() { send(ctx, rand.New(rand.NewPCG(seed, 2)), string(rune('a'+i))) })
			}
		})
	}
	for i := range 24 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for ctx.Err() == nil {
				send(ctx, r, string(rune('c'+i%2)))
				time.Sleep(time.Duration(20+r.IntN(80)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// Mixed traffic through the whole stack, written down and decided again: by its policy
// not one call comes out otherwise; with half of a limit the tenants whose it is have
// calls refused by just that, and the others rather fewer than before.
func TestPlan_OfMixedTraffic(t *testing.T) {
	for _, accounting := range []tenants.Accounting{tenants.AdmitMax, tenants.Production} {
		t.Run(string(accounting), func(t *testing.T) {
			t.Parallel()
			w := harness.World{Pool: harness.Pool(66_000, 0, 40), Tenants: mixedTenants(26_400), Mock: mock.Config{TokensPerSecond: 40, FirstToken: 50 * time.Millisecond}}
			w.Pool.Accounting = accounting
			var snap *tenants.Snapshot
			var record plan.Log
			synctest.Test(t, func(t *testing.T) {
				log := w.Record(t)
				s := harness.New(t, w)
				mixedTraffic(s, time.Duration(testkit.Rounds(40, 80))*time.Second)
				snap = s.Gateway.Snapshot()
				record = log.End(s)
			})
			compare := func(snap *tenants.Snapshot) *plan.Report {
				report := harness.DecidedAgain(t, record, snap)
				_ = report.Write(t.Output())
				return report
			}
			same := compare(snap)
			if !same.Exact || len(same.Flips) > 0 || same.Calls < testkit.Rounds(250, 500) {
				t.Errorf("of %d calls %d come out otherwise by their own policy, and %d by the same one", same.Calls, same.Differ, len(same.Flips))
			}
			w.Tenants = mixedTenants(13_200)
			halved := testkit.Must(tenants.Build(w.Config(), w.Tenants))(t)
			half := compare(halved)
			if !half.Exact || half.NowRefused < testkit.Rounds(20, 50) {
				t.Errorf("with half of their limit only %d calls are refused", half.NowRefused)
			}
			for _, tenant := range half.Tenants {
				limited := tenant.Tenant == "c" || tenant.Tenant == "d"
				if !limited && tenant.NowRefused > tenant.NowAdmitted {
					t.Errorf("%d calls of %s are refused, whose limits are as they were, and %d admitted", tenant.NowRefused, tenant.Tenant, tenant.NowAdmitted)
				}
				if limited && (tenant.NowRefused == 0 || tenant.By[0].Of != tenant.Tenant || tenant.By[0].Axis != "tokens") {
					t.Errorf("of %s %d are refused by %+v", tenant.Tenant, tenant.NowRefused, tenant.By)
				}
			}
		})
	}
}
