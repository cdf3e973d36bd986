package instance_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/governor"
	govsharing "github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// BenchmarkTenantLimits measures, for each way to keep tenants' own limits together, how often the
// store is asked and how long a call waits for its decision: ten tenants at two gateways, which
// stay within their limits, and then one that is over its own.
func BenchmarkTenantLimits(b *testing.B) {
	for name, url := range map[string]func(b *testing.B) string{
		"redis":    func(b *testing.B) string { return redistest.New(b).URL() },
		"postgres": func(b *testing.B) string { return pgtest.New(b).URL() },
	} {
		b.Run(name, func(b *testing.B) {
			address := url(b)
			for _, mode := range []string{"leased", "cached_deny", "strict"} {
				b.Run(mode, func(b *testing.B) {
					for b.Loop() {
						measureLimits(b, address, mode)
					}
				})
			}
		})
	}
}

var limitsModes = map[string]governor.LimitsMode{
	"leased": governor.LimitsLeased, "cached_deny": governor.LimitsCachedDeny, "strict": governor.LimitsStrict,
}

func measureLimits(b *testing.B, address, mode string) {
	cfg := governor.Config{SharedLimits: true, Pools: []governor.Pool{{Name: "p", Concurrency: 1e6, MaxQueue: 10, TenantLimits: limitsModes[mode]}}}
	run := rand.Text()[:8]
	for i := range 10 {
		cfg.Tenants = append(cfg.Tenants, governor.Tenant{Name: fmt.Sprint("t", i, run), Weight: 1, RPM: 100_000, TPM: 1e9, Concurrency: 1000})
	}
	cfg.Tenants = append(cfg.Tenants, governor.Tenant{Name: "full" + run, Weight: 1, RPM: 40, TPM: 1e9})
	const d = 10 * time.Second
	took, admitted, _, trips := measureTwo(b, address, cfg, 10, d, func(i int) string { return fmt.Sprint("t", i, run) })
	b.ReportMetric(float64(trips)*1000/float64(admitted), "trips/1000admitted")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
	b.ReportMetric(float64(admitted)/d.Seconds(), "calls/s")
	_, admitted, refused, trips := measureTwo(b, address, cfg, 1, d, func(int) string { return "full" + run })
	b.ReportMetric(float64(trips)*1000/float64(refused), "trips/1000refused")
	b.ReportMetric(float64(admitted), "of40")
}

// measureTwo asks at two gateways.
func measureTwo(b *testing.B, address string, cfg governor.Config, callers int, d time.Duration, tenant func(i int) string) (took []time.Duration, admitted, refused int, trips int64) {
	var asked atomic.Int64
	var gateways []*governor.Governor
	for range 2 {
		gov, stop := measured(b, address, cfg, &asked)
		gateways = append(gateways, gov)
		defer stop()
	}
	took, admitted, refused = ask(gateways, callers, d, tenant)
	return took, admitted, refused, asked.Load()
}

// measured is a gateway's governor, and what keeps its tenants' limits.
func measured(b *testing.B, address string, cfg governor.Config, trips *atomic.Int64) (*governor.Governor, func()) {
	gov := testkit.Must(governor.New(cfg))(b)
	at := testkit.Must(store.Open(address, func(string, string) {}))(b)
	side := govsharing.New(gov)
	limits := runner.NewLimits(runner.LimitsConfig{
		Instance: rand.Text(), Store: at, Limits: side.Limits, Calls: side.Calls, More: side.More(), Sign: side.Sign,
		Told: func(string, time.Duration, error) { trips.Add(1) },
	})
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = limits.Run(ctx) })
	return gov, func() { stop(); group.Wait(); at.Close() }
}

// ask has so many callers at each gateway call twenty times a second, for calls of a tenth of one.
// It tells how long decisions took, in order, and how many calls were admitted and refused.
func ask(gateways []*governor.Governor, callers int, d time.Duration, tenant func(i int) string) (took []time.Duration, admitted, refused int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, g := range gateways {
		for i := range callers {
			group.Go(func() {
				time.Sleep(mathrand.N(50 * time.Millisecond)) // not all at once
				ticker := time.NewTicker(50 * time.Millisecond)
				defer ticker.Stop()
				for end := time.Now().Add(d); time.Now().Before(end); <-ticker.C {
					began := time.Now()
					l, rej := g.Acquire(context.Background(), governor.Request{Tenant: tenant(i), Pool: "p", Input: 100, Output: 100})
					after := time.Since(began)
					mu.Lock()
					took = append(took, after)
					if rej == nil {
						admitted++
					} else {
						refused++
					}
					mu.Unlock()
					time.AfterFunc(100*time.Millisecond, func() { l.Settle(governor.Usage{Input: 100, Output: 50}) })
				}
			})
		}
	}
	group.Wait()
	slices.Sort(took)
	return took, admitted, refused
}
