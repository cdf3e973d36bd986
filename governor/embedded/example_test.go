package embedded_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
)

// A program that shares a pool of 300,000 tokens a minute between two tenants, by weight.
func ExampleNew() {
	governed, err := embedded.New(context.Background(), embedded.Policy{
		Pools:   []embedded.Pool{{Name: "gpt-4o", TPM: 300_000}},
		Tenants: []embedded.Tenant{{Name: "acme", Weight: 4}, {Name: "free", Weight: 1, RPM: 1}},
	}, embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer governed.Close()

	ask := func(_ context.Context, l *client.Lease) (client.Usage, error) {
		fmt.Println("a call of", l.Grant.Tenant, "in pool", l.Grant.Pool)
		return client.Usage{Input: 880, Output: 120}, nil // as the model server reports it
	}
	for range 2 {
		err = governed.Do(context.Background(), client.Request{Tenant: "free", Model: "gpt-4o", InputTokens: 900, MaxOutput: 300}, ask)
	}
	if refusal, ok := errors.AsType[*client.Refusal](err); ok {
		fmt.Println(refusal.Status, refusal.Code)
	}
	// Output:
	// a call of free in pool gpt-4o
	// 429 rate_limit_exceeded
}

// Teams divide what their tenant has of a pool, 3 : 1 here, and its limits hold for all of them together.
func ExampleNew_teams() {
	governed, err := embedded.New(context.Background(), embedded.Policy{
		Pools:   []embedded.Pool{{Name: "gpt-4o", TPM: 300_000}},
		Tenants: []embedded.Tenant{{Name: "acme", RPM: 2}, {Name: "acme/search", Weight: 3}, {Name: "acme/batch", Weight: 1}},
	}, embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer governed.Close()

	for _, team := range []string{"acme/search", "acme/batch", "acme/search"} {
		err := governed.Do(context.Background(), client.Request{Tenant: team, Model: "gpt-4o", InputTokens: 900, MaxOutput: 300},
			func(context.Context, *client.Lease) (client.Usage, error) {
				return client.Usage{Input: 880, Output: 120}, nil
			})
		fmt.Println(team, "is refused:", errors.Is(err, client.ErrRefused))
	}
	// Output:
	// acme/search is refused: false
	// acme/batch is refused: false
	// acme/search is refused: true
}
