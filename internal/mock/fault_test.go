package mock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHangup(t *testing.T) {
	r := onSocket(t, Config{TPM: 1000})
	stream := r.chat(`"stream":true,"max_tokens":100,"mock":{"hangup_after":5}`)
	if stream.err == nil || tokens(stream.body) != 5 {
		t.Errorf("stream: %d tokens, error %v, want 5 and an error", tokens(stream.body), stream.err)
	}
	plain := r.chat(`"max_tokens":100,"mock":{"hangup_after":6}`)
	if plain.err == nil || plain.body == "" {
		t.Errorf("plain: error %v after %q, want one in the body", plain.err, plain.body)
	}
	r.wantStats(Stats{
		Requests: 2, Admitted: 2, Hangups: 2, PromptTokens: 2 * chatPrompt, OutputTokens: 11, WindowTokens: 2*chatPrompt + 11,
	})
}

func TestErrorInTheMiddle(t *testing.T) {
	r := onSocket(t, Config{})
	got := r.chat(`"stream":true,"mock":{"error_after":2}`)
	evs := events(got.body)
	if last := evs[len(evs)-1]; got.err != nil || tokens(got.body) != 2 || !strings.HasPrefix(last.data, `{"error":{"message":`) {
		t.Errorf("chat: error %v, events %v", got.err, evs)
	}
	evs = events(r.post("/v1/responses", `{"model":"m","input":"a","stream":true,"mock":{"error_after":0}}`).body)
	if last := evs[len(evs)-1]; last.name != "error" || !strings.Contains(last.data, `"type":"error"`) {
		t.Errorf("responses: %v", evs)
	}
	if got := r.chat(`"mock":{"error_after":2}`); got.status != 500 || got.get("error.type").Str != "server_error" {
		t.Errorf("plain: %d %s", got.status, got.body)
	}
	r.wantStats(Stats{Requests: 3, Admitted: 3, Errors: 3, PromptTokens: 2*chatPrompt + 1, OutputTokens: 4})
}

func TestErrorStatus(t *testing.T) {
	r := onSocket(t, Config{RPM: 100})
	for _, status := range []int{400, 429, 500, 503} {
		got := r.chat(fmt.Sprintf(`"mock":{"error_status":%d}`, status))
		if got.status != status || got.get("error.message").Str == "" || got.header.Get("X-Ratelimit-Remaining-Requests") != "100" {
			t.Errorf("%d: got %d %v %s", status, got.status, got.header, got.body)
		}
		if hint := got.header.Get("Retry-After"); (hint == "1") != (status == 429) {
			t.Errorf("%d: Retry-After %q", status, hint)
		}
	}
	r.wantStats(Stats{Requests: 4, Errors: 4})
}

func TestStall(t *testing.T) {
	for _, stream := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := inBubble(t, Config{TPM: 1000})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			got := r.do(ctx, "POST", "/v1/chat/completions", chatBody(fmt.Sprintf(`"stream":%t,"mock":{"stall_after":3}`, stream)))
			if got.err == nil || stream && tokens(got.body) != 3 {
				t.Errorf("stream %t: error %v, %d tokens", stream, got.err, tokens(got.body))
			}
			synctest.Wait()
			r.wantStats(Stats{
				Requests: 1, Admitted: 1, Cancelled: 1, PromptTokens: chatPrompt, OutputTokens: 3, WindowTokens: chatPrompt + 3,
			})
		})
	}
}

func TestBadSSE(t *testing.T) {
	r := onSocket(t, Config{})
	got := r.chat(`"stream":true,"mock":{"bad_sse":true}`)
	first, rest, _ := strings.Cut(got.body, "\n\n")
	if !strings.Contains(first, "assistant") || len(rest) != len("data: ")+8<<20 || strings.Contains(rest, "\n") {
		t.Errorf("%d bytes after %q", len(rest), first)
	}
	r.wantStats(Stats{Requests: 1, Admitted: 1, Errors: 1, PromptTokens: chatPrompt})
}

// TestFaultBeyondTheEnd: what is to happen after more tokens than there are does not happen.
func TestFaultBeyondTheEnd(t *testing.T) {
	r := onSocket(t, Config{OutputTokens: 3})
	for _, stream := range []bool{true, false} {
		if got := r.chat(fmt.Sprintf(`"stream":%t,"mock":{"hangup_after":4}`, stream)); got.err != nil {
			t.Errorf("stream %t: %v", stream, got.err)
		}
		if got := r.chat(fmt.Sprintf(`"stream":%t,"mock":{"hangup_after":3}`, stream)); got.err == nil {
			t.Errorf("stream %t: no hang-up after the last token", stream)
		}
	}
}

// TestRates draws twice with one seed and once with another.
func TestRates(t *testing.T) {
	run := func(seed uint64) Stats {
		r := onSocket(t, Config{ErrorRate: 0.2, HangupRate: 0.1, Seed: seed})
		for range 400 {
			r.chat("")
		}
		return r.s.Stats()
	}
	a := run(1)
	b := run(1)
	c := run(2)
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("one seed, two runs:\n%s", d)
	}
	if a == c {
		t.Error("two seeds, the same run")
	}
	// 80 and 32 are expected; five standard deviations are 40 and 27.
	if a.Errors < 40 || a.Errors > 120 || a.Hangups < 5 || a.Hangups > 59 {
		t.Errorf("errors %d, hang-ups %d of 400", a.Errors, a.Hangups)
	}
}
