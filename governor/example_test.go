package governor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
)

// A call that can be ended by the governor, beside all other reasons for which its context ends.
func ExampleGovernor_Interrupt() {
	gov, err := governor.New(governor.Config{
		Pools:   []governor.Pool{{Name: "gpt-4o", TPM: 300_000, MaxQueue: 100}},
		Tenants: []governor.Tenant{{Name: "acme", Weight: escrow.WeightOne}},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	lease, rej := gov.Acquire(ctx, governor.Request{Tenant: "acme", Pool: "gpt-4o", Input: 900, Output: 4096, Stream: true, Interrupt: cancel})
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
