package runner_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// callShape is what each call of a tenant takes.
type callShape struct{ input, output int64 }

// TestShapes: of a pool that limits input and output apart, over one gateway and over three between which the tenants are spread
// unevenly, tenants whose calls have different shapes have dominant shares by weight, the tighter limit is used up, and no limit is
// passed in any minute.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name string
		otpm int64
		// at has, by tenant, how many callers it has at each gateway.
		at [][]int
	}{
		{"output is short, three gateways", 600_000, [][]int{{150, 0, 0}, {50, 50, 50}, {0, 40, 110}}},
		{"output is short, one gateway", 600_000, [][]int{{150}, {150}, {150}}},
		{"input is short, three gateways", 3_000_000, [][]int{{150, 0, 0}, {50, 50, 50}, {0, 40, 110}}},
	}[:testkit.Rounds(1, 3)] {
		testkit.Virtual(t, c.name, func(t *testing.T) { runShapes(t, c.otpm, c.at) })
	}
}

func runShapes(t *testing.T, otpm int64, at [][]int) {
	const itpm, rpm, minutes = 2_000_000, 20_000, 4
	shapes := []callShape{{1500, 100}, {200, 600}, {900, 400}} // long prompts, long answers, both
	weights := []int64{4, 2, 1}
	store := memory.New(memory.Config{Fresh: true})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var gateways []*governor.Governor
	for i := range at[0] {
		cfg := governor.Config{Shared: true, SharedSlots: true, SharedLimits: true, Pools: []governor.Pool{
			{Name: "p", RPM: rpm, ITPM: itpm, OTPM: otpm, Burst: 10 * time.Second, MaxQueue: 10_000, ExpectNodes: len(at[0])},
		}}
		for k := range shapes {
			cfg.Tenants = append(cfg.Tenants, governor.Tenant{Name: fmt.Sprint(k), Weight: escrow.Weight(weights[k]) * 1, MaxWait: time.Hour})
		}
		g := testkit.Must(governor.New(cfg))(t)
		side := sharing.New(g)
		name := fmt.Sprint("gateway ", i)
		pools := runner.New(runner.Config{Name: name, Region: "r", Instance: rand.Text(), Store: store, Pools: side.Pools})
		limits := runner.NewLimits(runner.LimitsConfig{Instance: rand.Text(), Store: store, More: side.More(), Sign: side.Sign, Limits: side.Limits, Calls: side.Calls})
		go func() { _ = pools.Run(ctx) }()
		go func() { _ = limits.Run(ctx) }()
		gateways = append(gateways, g)
	}

	var mu sync.Mutex
	var served []servedCall
	began := time.Now()
	var callers sync.WaitGroup
	for k, spread := range at {
		for i, n := range spread {
			for range n {
				callers.Go(func() {
					for ctx.Err() == nil {
						l, err := gateways[i].Acquire(ctx, governor.Request{Tenant: fmt.Sprint(k), Pool: "p", Input: shapes[k].input, Output: shapes[k].output})
						if err != nil {
							continue
						}
						mu.Lock()
						served = append(served, servedCall{time.Since(began), k})
						mu.Unlock()
						time.Sleep(2 * time.Second)
						l.Settle(governor.Usage{Input: shapes[k].input, Output: shapes[k].output})
					}
				})
			}
		}
	}
	time.Sleep((2 + minutes) * time.Minute)
	for i, g := range gateways {
		if grant := g.State().Pools[0].Grant; grant[escrow.Input] == 0 || grant[escrow.Output] == 0 {
			t.Errorf("gateway %d shows a grant of %v", i, grant)
		}
	}
	stop()
	callers.Wait()

	calls := make([]float64, len(shapes))
	var input, output [2 + minutes + 1]int64
	for _, c := range served {
		minute := int(c.at / time.Minute)
		if minute >= 2 && minute < 2+minutes {
			calls[c.tenant]++
		}
		input[minute] += shapes[c.tenant].input
		output[minute] += shapes[c.tenant].output
	}
	for minute := range 2 + minutes {
		if input[minute] > itpm || output[minute] > otpm {
			t.Errorf("in minute %d: %d of %d input tokens, %d of %d output tokens", minute, input[minute], itpm, output[minute], otpm)
		}
	}
	sum := 0.0
	tight := 0.0
	shares := make([]float64, len(shapes))
	for k, s := range shapes {
		shares[k] = calls[k] * max(1.0/rpm, float64(s.input)/itpm, float64(s.output)/float64(otpm)) / float64(weights[k])
		sum += shares[k] / float64(len(shapes))
	}
	for minute := 2; minute < 2+minutes; minute++ {
		tight += max(float64(input[minute])/itpm, float64(output[minute])/float64(otpm)) / minutes
	}
	t.Logf("calls %.0f, dominant shares for a unit of weight %.4f, the tighter limit is used to %.4f", calls, shares, tight)
	for k := range shares {
		if math.Abs(shares[k]/sum-1) > .01 {
			t.Errorf("tenant %d has %.3f of its dominant share", k, shares[k]/sum)
		}
	}
	if tight < .99 {
		t.Errorf("the tighter limit is used to %.3f", tight)
	}
}

// servedCall is a call of a tenant that was admitted.
type servedCall struct {
	at     time.Duration
	tenant int
}
