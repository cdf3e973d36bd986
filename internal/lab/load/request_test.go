package load

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Bodies are JSON that says what was drawn, and prompts are as long as they ought to be.
func TestBody(t *testing.T) {
	for _, c := range []struct {
		name     string
		path     Path
		stream   bool
		declared int64
		want     map[string]any // beside the prompt
		overhead int64          // what the server counts beside the text
	}{
		{"chat", Chat, true, 0, map[string]any{"max_tokens": 20., "stream": true, "stream_options": map[string]any{"include_usage": true}}, 7},
		{"plain chat", Chat, false, 0, map[string]any{"max_tokens": 20.}, 7},
		{"declares more", Chat, false, 4096, map[string]any{"max_tokens": 4096., "mock": map[string]any{"output_tokens": 20.}}, 7},
		{"declares nothing", Chat, false, Unsaid, map[string]any{"mock": map[string]any{"output_tokens": 20.}}, 7},
		{"responses", Responses, true, 0, map[string]any{"max_output_tokens": 20., "stream": true}, 0},
		{"messages", Messages, true, 0, map[string]any{"max_tokens": 20., "stream": true}, -1},
		{"embeddings", Embeddings, false, 0, map[string]any{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := Tenant{Model: `m"1`, Path: c.path, MaxTokens: c.declared}
			for _, prompt := range []int64{1, 1000, textLength} { // the last is longer than the text
				call := Call{Prompt: prompt, Output: 20, Stream: c.stream, Luck: 0.9}
				body := x.body(&call)
				var got map[string]any
				if err := json.Unmarshal(body, &got); err != nil {
					t.Fatalf("%v: %.200s", err, body)
				}
				if got["model"] != `m"1` || got["messages"] == nil && got["input"] == nil {
					t.Errorf("%.200s", body)
				}
				delete(got, "model")
				delete(got, "messages")
				delete(got, "input")
				if d := cmp.Diff(c.want, got); d != "" {
					t.Error(d)
				}
				if n := mock.PromptTokens(body, paths[c.path]); c.overhead >= 0 && n != prompt+c.overhead {
					t.Errorf("%d tokens in the prompt, want %d", n-c.overhead, prompt)
				}
			}
		})
	}
}

func TestRequestHeaders(t *testing.T) {
	for _, c := range []struct {
		x    Tenant
		want map[string]string
	}{
		{Tenant{Key: "k"}, map[string]string{"Authorization": "Bearer k", "X-Api-Key": "", "X-Stainless-Retry-Count": ""}},
		{Tenant{Key: "k", Path: Messages}, map[string]string{"Authorization": "", "X-Api-Key": "k", "Anthropic-Version": "2023-06-01"}},
		{Tenant{Retry: RetrySDK}, map[string]string{"Authorization": "", "X-Stainless-Retry-Count": "1", "Content-Type": "application/json"}},
	} {
		req := testkit.Must(c.x.request(t.Context(), "http://x", nil, 1))(t)
		for name, want := range c.want {
			if got := req.Header.Get(name); got != want {
				t.Errorf("%+v: %s is %q, want %q", c.x, name, got, want)
			}
		}
	}
}
