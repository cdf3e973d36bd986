package admission_test

import (
	"context"
	"fmt"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/tenants"
)

// A call of a program that has the governor inside it: from the tenant's name to the tokens that it took.
func ExampleCall() {
	ctl := controller()

	var call admission.Call
	call.Begin(context.Background(), ctl, ctl.Policy(), "req-1")
	defer call.Close() // whatever happens, nothing stays held
	a := ask.Ask{Model: "gpt-4o", Prompt: ask.Prompt{Tokens: 900}, Answer: ask.Answer{Bound: 300}}
	if refused := call.Enter(admission.Caller{Tenant: "acme"}, a); refused != nil {
		fmt.Println(refused.Status, refused.Message)
		return
	}
	call.Send()
	call.Progress(40) // deltas of a stream, now and then
	call.Complete(governor.Usage{Input: 880, Output: 120})

	fmt.Println(call.Ending.Outcome, call.Ending.Usage.Input, call.Ending.Usage.Output)
	// Output: ok 880 120
}

func controller() *admission.Controller {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "openai", BaseURL: "https://api.openai.com/v1"}}
	pool := tenants.DefaultPool("gpt")
	pool.TPM = 300_000
	pool.Models = []string{"gpt-4o"}
	cfg.Pools = []tenants.Pool{pool}
	snap, err := tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Keys: []tenants.Key{{Hash: tenants.HashKey("sk-acme")}}, Models: []string{"gpt-4o"}}})
	if err != nil {
		panic(err)
	}
	gov, err := governor.New(policy.Governor(snap))
	if err != nil {
		panic(err)
	}
	return admission.New(admission.Options{Snapshot: snap, Governor: gov, Metrics: telemetry.New()})
}
