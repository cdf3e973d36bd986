package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmgov/llmgov/governor/client"
)

// Retrying is right for refusals that say so, when they say, and as long as the context lives. Retry.Key has the governor know the
// call again, whose place it has kept.
func ExampleRefusal_Retryable() {
	governed := open()
	defer governed.Close()

	persistently := func(ctx context.Context, req client.Request, fn func(context.Context, *client.Lease) (client.Usage, error)) error {
		for attempt := 1; ; attempt++ {
			req.Retry.Attempt = attempt
			err := governed.Do(ctx, req, fn)
			refusal, refused := errors.AsType[*client.Refusal](err)
			if !refused || !refusal.Retryable() {
				return err
			}
			fmt.Println("refused; again when told to")
			select {
			case <-time.After(refusal.RetryAfter):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	call := client.Request{Tenant: "nobody", Model: "gpt-4o", InputTokens: 900, MaxOutput: 300, Retry: client.Retry{Key: "job-17"}}
	err := persistently(ctx, call, func(context.Context, *client.Lease) (client.Usage, error) {
		return client.Usage{Input: 880, Output: 120}, nil
	})
	refusal, _ := errors.AsType[*client.Refusal](err)
	fmt.Println(refusal.Code, "is not worth another try")
	// Output: invalid_api_key is not worth another try
}
