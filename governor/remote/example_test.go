package remote_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote"
)

// A program asks a running llmgov before it calls a model, and tells it afterwards what the call took.
func ExampleDial() {
	address := os.Getenv("LLMGOV_ADMISSION") // such as llmgov:9091
	governed, err := remote.Dial(address, remote.Options{Token: os.Getenv("ADMISSION_TOKEN")})
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
		if refusal, ok := errors.AsType[*client.Refusal](err); ok {
			fmt.Println(refusal.Code)
		}
	}
	// Output:
	// calling the model for acme
	// rate_limit_exceeded
}
