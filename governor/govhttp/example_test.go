package govhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	goopenai "github.com/sashabaranov/go-openai"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
	"github.com/llmgov/llmgov/governor/govhttp"
)

// twoCalls is a governor by which acme has two calls a minute, and a model server.
func twoCalls() (governed *client.Client, model *httptest.Server) {
	g, err := embedded.New(context.Background(), embedded.Policy{
		Pools:   []embedded.Pool{{Name: "gpt-4o", TPM: 300_000}},
		Tenants: []embedded.Tenant{{Name: "acme", RPM: 2, Keys: []string{"sk-acme"}}},
	}, embedded.Options{})
	if err != nil {
		panic(err)
	}
	answers := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, how are you?"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}`)
	}
	return g.Client, httptest.NewServer(http.HandlerFunc(answers))
}

const chat = `{"model":"gpt-4o","max_tokens":5,"messages":[{"role":"user","content":"Say hello"}]}`

// Any HTTP client is governed by its Transport.
func ExampleTransport() {
	governed, model := twoCalls()
	defer governed.Close()
	defer model.Close()
	c := &http.Client{Transport: govhttp.Transport(governed, nil, govhttp.Options{})}

	for range 3 {
		ctx := govhttp.WithTenant(context.Background(), "acme")
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, model.URL+"/v1/chat/completions", strings.NewReader(chat))
		resp, err := c.Do(req)
		if refusal, ok := errors.AsType[*client.Refusal](err); ok {
			fmt.Println("refused:", refusal.Status, refusal.Code)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // ends the lease, if it was not read to its end
		fmt.Println(resp.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// refused: 429 rate_limit_exceeded
}

// openai-go takes a middleware. As an answer, a refusal is the SDK's own error, and it comes back when it is told to.
func ExampleClientMiddleware() {
	governed, model := twoCalls()
	defer governed.Close()
	defer model.Close()
	sdk := openai.NewClient(
		option.WithBaseURL(model.URL+"/v1"), option.WithAPIKey("sk-upstream"), option.WithMaxRetries(0),
		option.WithMiddleware(govhttp.ClientMiddleware(governed, govhttp.Options{Caller: govhttp.Tenant("acme"), Answer: true})),
	)
	for range 3 {
		answer, err := sdk.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
			Model: "gpt-4o", MaxTokens: openai.Int(5), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hello")},
		})
		if failed, ok := errors.AsType[*openai.Error](err); ok {
			fmt.Println("refused:", failed.StatusCode, failed.Code)
			continue
		}
		fmt.Println(answer.Usage.CompletionTokens, "tokens")
	}
	// Output:
	// 5 tokens
	// 5 tokens
	// refused: 429 rate_limit_exceeded
}

// go-openai takes an HTTPDoer.
func ExampleDoer() {
	governed, model := twoCalls()
	defer governed.Close()
	defer model.Close()
	config := goopenai.DefaultConfig("sk-upstream")
	config.BaseURL = model.URL + "/v1"
	config.HTTPClient = govhttp.Doer(governed, nil, govhttp.Options{Caller: govhttp.Tenant("acme")})
	sdk := goopenai.NewClientWithConfig(config)
	for range 3 {
		answer, err := sdk.CreateChatCompletion(context.Background(), goopenai.ChatCompletionRequest{
			Model: "gpt-4o", MaxCompletionTokens: 5, Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: "Say hello"}},
		})
		if refusal, ok := errors.AsType[*client.Refusal](err); ok {
			fmt.Println("refused:", refusal.Kind)
			continue
		}
		fmt.Println(answer.Usage.CompletionTokens, "tokens")
	}
	// Output:
	// 5 tokens
	// 5 tokens
	// refused: requests
}

// A server of models governs its callers by their keys.
func ExampleMiddleware() {
	governed, model := twoCalls()
	defer governed.Close()
	defer model.Close()
	server := httptest.NewServer(govhttp.Middleware(governed, govhttp.Options{})(model.Config.Handler))
	defer server.Close()

	for range 3 {
		req, _ := http.NewRequest(http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader(chat))
		req.Header.Set("Authorization", "Bearer sk-acme")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(resp.Status, "left:", resp.Header.Get("X-Ratelimit-Remaining-Requests"))
	}
	// Output:
	// 200 OK left: 1
	// 200 OK left: 0
	// 429 Too Many Requests left: 0
}
