package remote_test

import (
	"context"
	"fmt"
	"net"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote"
	"github.com/llmgov/llmgov/tenants"
)

// A program asks a running llmgov before it calls a model, and tells it afterwards what the call took.
func ExampleDial() {
	address := llmgov() // such as "llmgov:9091"
	governed, err := remote.Dial(address, remote.Options{Token: token})
	if err != nil {
		panic(err)
	}
	defer governed.Close()

	ask := client.Request{Tenant: "acme", Model: "m", InputTokens: 900, MaxOutput: 300}
	for range 2 {
		err = governed.Do(context.Background(), ask, func(_ context.Context, l *client.Lease) (client.Usage, error) {
			fmt.Println("calling the model for", l.Grant.Tenant)
			return client.Usage{Input: 874, Output: 212}, nil
		})
		if err != nil {
			fmt.Println(refused(err).Code)
		}
	}
	// Output:
	// calling the model for acme
	// rate_limit_exceeded
}

// llmgov starts one in which acme may make one call a minute, and returns its address.
func llmgov() string {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var w world
	if err := w.serve(at, func(_ *tenants.Pool, acme *tenants.Tenant) { acme.RPM = 1 }); err != nil {
		panic(err)
	}
	return at.Addr().String()
}
