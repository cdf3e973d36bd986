package instance_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/governor"
	govsharing "github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// BenchmarkQuietTenants measures what calls cost of tenants that call now and then, 200 a second at one gateway: alone, and with parts
// that last.
func BenchmarkQuietTenants(b *testing.B) {
	for _, tenants := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			for name, shared := range map[string]bool{"alone": false, "lasting": true} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						quietTenants(b, redistest.New(b).URL(), tenants, shared)
					}
				})
			}
		})
	}
}

func quietTenants(b *testing.B, address string, tenants int, shared bool) {
	cfg := governor.Config{SharedLimits: shared, Pools: []governor.Pool{{Name: "p", Concurrency: 1e6, MaxQueue: 10}}}
	for i := range tenants {
		cfg.Tenants = append(cfg.Tenants, governor.Tenant{Name: fmt.Sprint("t", i), Weight: 0.001, RPM: 600, TPM: 200_000})
	}
	gov := testkit.Must(governor.New(cfg))(b)
	var trips, calls, late atomic.Int64
	at := testkit.Must(store.Open(address, func(string, string) {}))(b)
	defer at.Close()
	side := govsharing.New(gov)
	limits := runner.NewLimits(runner.LimitsConfig{
		Instance: rand.Text(), Store: at, Limits: side.Limits, Calls: side.Calls, More: side.More(), Sign: side.Sign,
		Told: func(string, time.Duration, error) { trips.Add(1) },
	})
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	if shared {
		group.Go(func() { _ = limits.Run(ctx) })
	}
	defer func() { stop(); group.Wait() }()
	call := func(tenant int) {
		lease, rej := gov.Acquire(ctx, governor.Request{Tenant: fmt.Sprint("t", tenant), Pool: "p", Input: 500, Output: 4096})
		calls.Add(1)
		if rej != nil || lease.Waited > 0 {
			late.Add(1)
		}
		time.AfterFunc(time.Second, func() { lease.Settle(governor.Usage{Input: 500, Output: 300}) })
	}
	const every = 5 * time.Millisecond
	turn := mathrand.Perm(tenants)
	load := func(d time.Duration, n *int) {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for end := time.Now().Add(d); time.Now().Before(end); <-ticker.C {
			tenant := turn[*n%tenants]
			group.Go(func() { call(tenant) })
			*n++
		}
	}
	n := 0
	load(min(time.Duration(tenants)*every+10*time.Second, time.Minute), &n)
	for _, x := range []*atomic.Int64{&trips, &calls, &late} {
		x.Store(0)
	}
	used := processor()
	load(20*time.Second, &n)
	used = processor() - used
	b.ReportMetric(float64(trips.Load())/float64(calls.Load()), "trips/call")
	b.ReportMetric(float64(used.Microseconds())/1000/float64(calls.Load()), "ms-of-CPU/call")
	b.ReportMetric(float64(late.Load())*100/float64(calls.Load()), "%-waited-or-refused")
}

// processor is the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
