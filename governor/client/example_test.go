package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
)

// A stream that breaks off, of which 40 tokens had come: these are charged, and the prompt.
func ExampleClient_Do() {
	governed := open()
	defer governed.Close()

	err := governed.Do(context.Background(), client.Request{Tenant: "acme", Model: "gpt-4o", InputTokens: 900, MaxOutput: 300, Stream: true},
		func(ctx context.Context, l *client.Lease) (client.Usage, error) {
			answer, err := begin(ctx)
			if err != nil {
				return client.Usage{}, fmt.Errorf("%w: %w", client.ErrNotSent, err) // nothing is charged
			}
			for tokens := range answer {
				l.Progress(tokens) // is charged if it breaks off
			}
			return client.Usage{}, errors.New("the model server broke off")
		})
	fmt.Println(err)
	// Output: the model server broke off
}

// A call that does not end where it begins: its lease is handed to the goroutine that ends it.
func ExampleClient_Reserve() {
	governed := open()
	defer governed.Close()

	lease, err := governed.Reserve(context.Background(), client.Request{Tenant: "acme", Model: "gpt-4o", InputTokens: 900, MaxOutput: 300})
	if err != nil {
		fmt.Println(err)
		return
	}
	over := make(chan error)
	go func() {
		defer lease.Close() // charges by estimate if nothing has ended it
		fmt.Println("admitted to pool", lease.Grant.Pool)
		over <- lease.End(client.End{Outcome: client.Completed, Usage: client.Usage{Input: 880, Output: 120}, Reported: true})
	}()
	fmt.Println(<-over)
	// Output:
	// admitted to pool gpt-4o
	// <nil>
}

// begin begins a stream, and returns how many tokens there are with each piece.
func begin(context.Context) (<-chan int64, error) {
	answer := make(chan int64, 4)
	for tokens := int64(10); tokens <= 40; tokens += 10 {
		answer <- tokens
	}
	close(answer)
	return answer, nil
}

func open() *embedded.Governor {
	governed, err := embedded.New(context.Background(), embedded.Policy{
		Pools: []embedded.Pool{{Name: "gpt-4o", TPM: 300_000}}, Tenants: []embedded.Tenant{{Name: "acme"}},
	}, embedded.Options{})
	if err != nil {
		panic(err)
	}
	return governed
}
