package mock

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestStatsAreWhatClientsSaw runs a mixture of calls, counts on the client's side, and
// compares the moment the last answer has been read.
func TestStatsAreWhatClientsSaw(t *testing.T) {
	for _, accounting := range []string{AdmitMax, Production, Settle} {
		synctest.Test(t, func(t *testing.T) {
			r := inBubble(t, Config{
				TPM: 20000, RPM: 300, Slots: 8, Accounting: accounting, FirstToken: 20 * time.Millisecond, TokensPerSecond: 1000,
				ErrorRate: 0.05, HangupRate: 0.1, SlowRate: 0.1, SlowChunk: 5 * time.Millisecond, Seed: 7,
			})
			var (
				wg  sync.WaitGroup
				mu  sync.Mutex
				saw Stats
			)
			for worker := range 16 {
				rng := rand.New(rand.NewPCG(1, uint64(worker)))
				wg.Go(func() {
					for range 40 {
						got := r.chat(fmt.Sprintf(`"stream":true,"max_tokens":%d`, 1+rng.IntN(60)))
						mu.Lock()
						saw.count(got)
						mu.Unlock()
						time.Sleep(time.Duration(rng.IntN(1e9)))
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			if saw.Refused == 0 || saw.Hangups == 0 || saw.Errors == 0 || saw.Completed == 0 {
				t.Fatalf("the mixture lacks something: %+v", saw)
			}
			r.wantStats(saw)
			st := r.s.Stats()
			if st.PeakRunning != 8 || st.TokensProduced != saw.PromptTokens+saw.OutputTokens {
				t.Errorf("peak %d, produced %d", st.PeakRunning, st.TokensProduced)
			}
			if accounting == AdmitMax && (st.WindowTokensPeak > 20000 || st.WindowRequestsPeak > 300) {
				t.Errorf("peaks %d and %d exceed the limits", st.WindowTokensPeak, st.WindowRequestsPeak)
			}
		})
	}
}

func (s *Stats) count(got reply) {
	s.Requests++
	switch {
	case got.status == 429:
		s.Refused++
		return
	case got.status == 500:
		s.Errors++
		return
	case got.err != nil:
		s.Hangups++
	case strings.HasSuffix(got.body, "data: [DONE]\n\n"):
		s.Completed++
	}
	s.Admitted++
	s.PromptTokens += chatPrompt
	s.OutputTokens += tokens(got.body)
}

func TestStatsEndpoints(t *testing.T) {
	r := onSocket(t, Config{TPM: 1000, RPM: 10, OutputTokens: 5})
	r.chat("")
	r.chat("")
	var got, again Stats
	testkit.OK(t, json.Unmarshal([]byte(r.get("/_stats").body), &got))
	want := Stats{
		Requests: 2, Admitted: 2, Completed: 2, PeakRunning: 1, PromptTokens: 16, OutputTokens: 10, TokensProduced: 26,
		WindowTokens: 26, WindowRequests: 2, WindowTokensPeak: 26, WindowRequestsPeak: 2,
	}
	testkit.Same(t, want, got, "stats")
	r.post("/_stats/reset", "")
	testkit.OK(t, json.Unmarshal([]byte(r.get("/_stats").body), &again))
	want = Stats{WindowTokens: 26, WindowRequests: 2, WindowTokensPeak: 26, WindowRequestsPeak: 2}
	testkit.Same(t, want, again, "after the reset")
}

func TestIDsAreUniqueAndRepeatable(t *testing.T) {
	ids := func(seed uint64) (out []string) {
		r := onSocket(t, Config{Seed: seed})
		for range 2 {
			out = append(out, r.chat("").get("id").Str)
		}
		return append(out, r.chat(`"stream":true`).header.Get("X-Request-Id"))
	}
	a := ids(1)
	testkit.Same(t, a, ids(1), "two runs differ")
	if b := ids(2); a[0] == a[1] || a[0] == b[0] || !strings.HasPrefix(a[0], "chatcmpl-") {
		t.Errorf("ids %v and %v", a, b)
	}
}

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
	testkit.Same(t, a, b, "one seed, two runs")
	if a == c {
		t.Error("two seeds, the same run")
	}
	// 80 and 32 are expected; five standard deviations are 40 and 27.
	if a.Errors < 40 || a.Errors > 120 || a.Hangups < 5 || a.Hangups > 59 {
		t.Errorf("errors %d, hang-ups %d of 400", a.Errors, a.Hangups)
	}
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := New(Config{
		Models: []string{""}, FirstToken: -1, TokensPerSecond: -1, Slots: -1, OutputTokens: -1, MostOutput: -1, TPM: -1, RPM: -1,
		Accounting: "x", ErrorRate: 2, HangupRate: -1, SlowRate: 0.5, Usage: "y",
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{
		"Models[0]", "FirstToken", "TokensPerSecond", "Slots", "OutputTokens", "MostOutput", "TPM", "RPM",
		"Accounting", "ErrorRate", "HangupRate", "SlowRate", "Usage",
	} {
		if !strings.Contains(err.Error(), "mock: "+name) {
			t.Errorf("%s is not among the problems:\n%v", name, err)
		}
	}
}

func TestLogf(t *testing.T) {
	lines := make(chan string, 10)
	r := onSocket(t, Config{Logf: func(format string, args ...any) { lines <- fmt.Sprintf(format, args...) }})
	r.chat(`"max_tokens":2`)
	if got, want := <-lines, `chat completed: model="m" prompt=8 output=2 stream=false after `; !strings.HasPrefix(got, want) {
		t.Errorf("logged %q, want %q…", got, want)
	}
}

// sink is a ResponseWriter that costs nothing, so that the server's own cost shows.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) FlushError() error           { return nil }

// inProcess returns a function that serves body once.
func inProcess(tb testing.TB, cfg Config, body string) func() {
	s := mustNew(tb, cfg)
	r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	reader := strings.NewReader(body)
	r.Body = io.NopCloser(reader)
	w := &sink{http.Header{}}
	return func() {
		reader.Reset(body)
		clear(w.h)
		s.ServeHTTP(w, r)
	}
}

// TestAllocations: a chunk costs none, and a call only its headers and the copy of its body.
func TestAllocations(t *testing.T) {
	plain := testkit.Allocs(t, 500, inProcess(t, Config{}, chatBody("")))
	if plain > 14 {
		t.Errorf("a plain call allocates %d times, want at most 14", plain)
	}
	few := testkit.Allocs(t, 100, inProcess(t, Config{}, chatBody(`"stream":true,"max_tokens":10`)))
	many := testkit.Allocs(t, 100, inProcess(t, Config{}, chatBody(`"stream":true,"max_tokens":1000`)))
	if many > few+1 {
		t.Errorf("990 more chunks allocate %d times", many-few)
	}
}
