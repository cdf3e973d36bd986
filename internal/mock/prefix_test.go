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
