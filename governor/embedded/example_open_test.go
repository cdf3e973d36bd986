package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
)

// A program opens the files of a gateway, and makes its calls with Do.
func ExampleOpen() {
	file := filesOfAGateway()
	defer os.RemoveAll(filepath.Dir(file))

	governed, err := embedded.Open(context.Background(), file, embedded.Options{})
	if err != nil {
		fmt.Println(err) // which file, line and key are wrong
		return
	}
	defer governed.Close()

	for range 2 {
		err = governed.Do(context.Background(), client.Request{Tenant: "acme", Model: "gpt-4o", InputTokens: 900, MaxOutput: 300},
			func(ctx context.Context, _ *client.Lease) (client.Usage, error) {
				answer, err := ask(ctx)
				return client.Usage{Input: 880, Output: int64(len(answer))}, err
			})
		refusal, refused := errors.AsType[*client.Refusal](err)
		if refused {
			fmt.Println(refusal.Code, refusal.Header.Get("X-Ratelimit-Limit-Requests"))
		}
	}
	// Output:
	// asking the model
	// rate_limit_exceeded 1
}

// ask calls a model, as long as its context lives.
func ask(context.Context) (answer string, err error) {
	fmt.Println("asking the model")
	return "Hello!", nil
}

func filesOfAGateway() string {
	dir, err := os.MkdirTemp("", "llmgov")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "llmgov.yaml")
	for name, text := range map[string]string{
		file:                               "policies: [tenants.yaml]\nupstreams: {openai: {base_url: https://api.openai.com/v1}}\npools: {gpt-4o: {models: [gpt-4o], tpm: 300000}}\n",
		filepath.Join(dir, "tenants.yaml"): "tenants: {acme: {rpm: 1}}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	return file
}
