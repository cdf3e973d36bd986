package mock

import (
	"fmt"
	"strings"
	"testing"
)

// A prompt that begins as an earlier one is cached up to where they part, in whole blocks, and as long as there is room.
func TestPrefixCache(t *testing.T) {
	const room = 10 // blocks
	r := onSocket(t, Config{PrefixCache: room * blockTokens})
	text := func(block string, n int) string { return strings.Repeat(block, n*blockBytes/len(block)) }
	ask := func(content string) (prompt, cached int64) {
		t.Helper()
		u := r.post("/v1/completions", fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":1}`, content)).get("usage")
		return u.Get("prompt_tokens").Int(), u.Get("prompt_tokens_details.cached_tokens").Int()
	}
	for _, step := range []struct {
		about, prompt string
		cached        float64 // blocks
	}{
		{"a new one", text("a", 3), 0},
		{"the same", text("a", 3), 3},
		{"one that goes on", text("a", 3) + text("b", 2), 3},
		{"it goes on further", text("a", 3) + text("b", 2) + text("c", 2), 5},
		{"another beginning", text("x", 1) + text("a", 3), 0},
		{"many others", text("y", 9), 0},
		{"one that was dropped", text("a", 3), 0},
		{"the latest of the others", text("y", 9), 7},
	} {
		prompt, cached := ask(step.prompt)
		if got := float64(cached) / blockTokens; got < step.cached-0.05 || got > step.cached {
			t.Errorf("%s: %d of %d tokens are cached, %.2f blocks, want %.0f", step.about, cached, prompt, got, step.cached)
		}
	}
}

// Every kind of call reports what was cached, and the counters have it.
func TestPrefixCache_Reported(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"%[1]s"}],"input":"%[1]s","max_tokens":3,"max_output_tokens":3}`
	text := strings.Repeat("x", 4*blockBytes)
	for path, member := range map[string]string{
		"/v1/chat/completions": "usage.prompt_tokens_details.cached_tokens",
		"/v1/responses":        "usage.input_tokens_details.cached_tokens",
		"/v1/messages":         "usage.cache_read_input_tokens",
	} {
		r := onSocket(t, Config{PrefixCache: 10_000})
		first := r.post(path, fmt.Sprintf(body, text)).get(member)
		second := r.post(path, fmt.Sprintf(body, text)).get(member)
		if first.Raw != "0" || second.Int() < 3*blockTokens {
			t.Errorf("%s: %s is %s, then %s", path, member, first.Raw, second.Raw)
		}
		if got := r.s.Stats().CachedTokens; got != second.Int() {
			t.Errorf("%s: %d tokens are counted, want %d", path, got, second.Int())
		}
	}
}

func TestPromptTokens(t *testing.T) {
	for _, tt := range []struct {
		path, body string
		want       int64
	}{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"12345"}]}`, 3 + 4 + 2},
		{"/chat/completions", `{"messages":[{"content":"1234"},{"content":null},{"content":""}]}`, 3 + 12 + 1},
		{"/v1/chat/completions", `{"messages":[{"content":[{"type":"text","text":"12345"},{"type":"image_url","image_url":{"url":"x"}},{"text":"1"}]}]}`, 3 + 4 + 3 + 765},
		{"/v1/chat/completions", `{"messages":[{"content":"\u00e9\u00e9\u00e9"}]}`, 3 + 4 + 2}, // 6 bytes when decoded
		{"/v1/chat/completions", `{"messages":[{"content":"a"}],"messages":[{"content":"12345"}]}`, 3 + 4 + 2},
		{"/v1/completions", `{"prompt":"12345"}`, 2},
		{"/v1/completions", `{"prompt":["1","12345"]}`, 3},
		{"/v1/completions", `{"prompt":[[1,2],[3]]}`, 3},
		{"/v1/embeddings", `{"input":[1,2,3,4]}`, 4},
		{"/v1/responses", `{"input":"12345","instructions":"1"}`, 3},
		{"/v1/responses", `{"input":[{"role":"user","content":"12345"},{"content":[{"type":"input_text","text":"1"}]}]}`, 3},
		{"/v1/moderations", `{"input":[{"type":"text","text":"12345"},{"type":"image_url"}]}`, 2 + 765},
		{"/v1/messages", `{"system":"1","messages":[{"content":[{"type":"text","text":"12345"}]}]}`, 3 + 4 + 2 + 1},
		{"/v1/completions", `{"prompt":`, 0},
		{"/v1/models", `{"prompt":"a"}`, 0},
	} {
		if got := PromptTokens([]byte(tt.body), tt.path); got != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.path, tt.body, got, tt.want)
		}
	}
}
