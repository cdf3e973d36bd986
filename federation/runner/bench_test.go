package runner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// BenchmarkAdmission is how long a call takes to be admitted and settled in a pool that is
// shared, while the store answers within a millisecond, and while it answers nothing and
// the pool is open. The two take turns.
func BenchmarkAdmission(b *testing.B) {
	ways := []*network{{}, {}}
	var governors []*governor.Governor
	for i, net := range ways {
		net.Store = memory.New(memory.Config{Fresh: true})
		net.delay = 500 * time.Microsecond
		gov := testkit.Must(governor.New(governor.Config{
			Shared:  true,
			Pools:   []governor.Pool{{Name: "p", TPM: 60_000_000_000, Burst: time.Minute, MaxQueue: 1000, OnLoss: governor.LossOpen}},
			Tenants: []governor.Tenant{{Name: "a", Weight: 1, MaxWait: time.Second}},
		}))(b)
		run := runner.New(runner.Config{Name: "n", Instance: fmt.Sprint(i), Store: net, Pools: poolsOf(gov)})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- run.Run(ctx) }()
		defer func() { stop(); <-done }()
		<-run.First()
		governors = append(governors, gov)
	}
	ways[1].cut.Store(true)
	for governors[1].Degraded("p") != "open" {
		time.Sleep(10 * time.Millisecond)
	}
	took := [2][]time.Duration{}
	for i := range b.N {
		for k, gov := range governors {
			began := time.Now()
			l, rej := governor.Refused(gov.Acquire(context.Background(), governor.Request{Tenant: "a", Pool: "p", Input: 100, Output: 100}))
			if rej != nil {
				b.Fatalf("store %d, call %d: %v", k, i, rej)
			}
			l.Settle(governor.Usage{Input: 100, Output: 50})
			took[k] = append(took[k], time.Since(began))
		}
	}
	for k, name := range []string{"store", "blackhole"} {
		slices.Sort(took[k])
		b.ReportMetric(float64(took[k][len(took[k])/2].Nanoseconds()), name+"-p50-ns")
		b.ReportMetric(float64(took[k][len(took[k])*99/100].Nanoseconds()), name+"-p99-ns")
	}
}
