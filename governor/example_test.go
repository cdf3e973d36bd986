package governor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
)

// A call counts as the most that it may take while it runs, and as the tokens that it took once it is settled.
func ExampleGovernor_Acquire() {
	gov, err := governor.New(governor.Config{
		Pools:   []governor.Pool{{Name: "gpt-4o", TPM: 300_000, Concurrency: 8, MaxQueue: 100}},
		Tenants: []governor.Tenant{{Name: "acme", TPM: 10_000, MaxWait: time.Second}},
	})
	if err != nil {
		panic(err)
	}

	lease, err := gov.Acquire(context.Background(), governor.Request{
		Tenant: "acme",
		Pool:   "gpt-4o",
		Input:  900,   // the prompt, as estimated
		Output: 4_000, // max_tokens
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release() // gives everything back if the call is not sent; does nothing after Settle
	fmt.Println("left during the call:", gov.Standing("acme", "gpt-4o").Tokens.Remaining)

	// Here the model is called. Its answer reports the usage.

	lease.Settle(governor.Usage{Input: 880, Output: 120})
	fmt.Println("left after the call:", gov.Standing("acme", "gpt-4o").Tokens.Remaining)
	// Output:
	// left during the call: 5100
	// left after the call: 9000
}

// A stream reports what it has produced so far. It is settled if it was complete, and otherwise broken off.
func ExampleLease_Progress() {
	gov, err := governor.New(governor.Config{
		Pools:   []governor.Pool{{Name: "claude", TPM: 300_000, MaxQueue: 100, Accounting: escrow.Production}},
		Tenants: []governor.Tenant{{Name: "acme"}},
	})
	if err != nil {
		panic(err)
	}
	lease, err := gov.Acquire(context.Background(), governor.Request{
		Tenant: "acme",
		Pool:   "claude",
		Input:  900,
		Output: 4_000,
		Stream: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	var usage governor.Usage
	complete := false
	for _, event := range []string{"Hello", ",", " world", ".", "[DONE]"} { // as the model sends them
		if event == "[DONE]" {
			complete = true
			break
		}
		usage.Output++
		lease.Progress(usage.Output)
	}
	usage.Input = 900

	if complete {
		fmt.Println("settled:", lease.Settle(usage))
	} else {
		fmt.Println("broken off:", lease.Break(usage))
	}
	fmt.Println("tokens produced:", usage.Output)
	// Output:
	// settled: true
	// tokens produced: 4
}

// noon is a clock that stands still, so that ExampleRefusal prints the same times whenever it runs.
type noon struct{ governor.SystemClock }

func (noon) Now() time.Time { return time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC) }

// A refusal says which limit refused, and when to come back.
func ExampleRefusal() {
	gov, err := governor.New(governor.Config{
		Pools: []governor.Pool{{Name: "gpt-4o", TPM: 300_000, MaxQueue: 100}},
		Tenants: []governor.Tenant{{
			Name:    "acme",
			Budgets: []governor.Budget{{Unit: governor.UnitTokens, Limit: 5_000, Per: budget.Hour}},
		}},
		Clock: noon{},
	})
	if err != nil {
		panic(err)
	}
	request := governor.Request{Tenant: "acme", Pool: "gpt-4o", Input: 1_000, Output: 4_000}

	lease, refusal := governor.Refused(gov.Acquire(context.Background(), request))
	if refusal != nil {
		panic(refusal)
	}
	lease.Settle(governor.Usage{Input: 1_000, Output: 4_000})

	_, refusal = governor.Refused(gov.Acquire(context.Background(), request))
	fmt.Println(refusal)
	fmt.Println("retry after", refusal.RetryAfter)
	// Output:
	// The budget of tenant acme is spent (tokens per hour: Limit 5000, Used 5000, Requested 5000). It resets at 2026-03-02T13:00:00Z (in 1h0m).
	// retry after 1h0m0s
}

// A call that can be ended by the governor, beside all other reasons for which its context ends.
func ExampleGovernor_Interrupt() {
	gov, err := governor.New(governor.Config{
		Pools:   []governor.Pool{{Name: "gpt-4o", TPM: 300_000, MaxQueue: 100}},
		Tenants: []governor.Tenant{{Name: "acme"}},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	lease, rej := governor.Refused(gov.Acquire(ctx, governor.Request{Tenant: "acme", Pool: "gpt-4o", Input: 900, Output: 4096, Stream: true, Interrupt: governor.InterruptFunc(cancel)}))
	if rej != nil {
		panic(rej)
	}

	fmt.Println(gov.Interrupt("gpt-4o", errors.New("the node was fenced")), "call was asked to end")

	<-ctx.Done() // which ends the stream
	fmt.Println(context.Cause(ctx))
	fmt.Println(lease.Break(governor.Usage{Input: 900, Output: 120}), lease.Release())
	// Output:
	// 1 call was asked to end
	// the node was fenced
	// true false
}
