package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// streamOf answers with these events and ends the connection properly.
func streamOf(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range events {
			_, _ = io.WriteString(w, e)
		}
	}
}

const (
	delta = `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"
	stop  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usage = `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}` + "\n\n"
	done  = "data: [DONE]\n\n"
)

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func hangUp(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

// Every way in which an answer can come, and what it counts as.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		h      http.HandlerFunc
		stream float64
		want   string // outcome, and its kind
		tokens int64
	}{
		{"whole stream", streamOf(delta, delta, stop, usage, done), 1, "ok", 9},
		{"last event without a blank line", streamOf(delta, stop, usage, "data: [DONE]"), 1, "ok", 9},
		{"no [DONE], though it says that it stopped", streamOf(delta, stop, usage), 1, "failed stream: no end", 0},
		{"error event", streamOf(delta, `data: {"error":{"message":"m"}}`+"\n\n"), 1, "failed stream: error event", 0},
		{"hangs up in mid-stream", func(w http.ResponseWriter, r *http.Request) {
			streamOf(delta)(w, r)
			_ = http.NewResponseController(w).Flush()
			hangUp(w, r)
		}, 1, "failed network: connection closed", 0},
		{"no stream", answer(200, plainAnswer), 1, "failed stream: none", 0},
		{"plain", answer(200, plainAnswer), 0, "ok", 15},
		{"plain without usage", answer(200, `{"choices":[]}`), 0, "ok", 0},
		{"half of a plain answer", func(w http.ResponseWriter, r *http.Request) {
			answer(200, `{"choices":[`, "Content-Length", "1000")(w, r)
			_ = http.NewResponseController(w).Flush()
			hangUp(w, r)
		}, 0, "failed network: connection closed", 0},
		{"hangs up", hangUp, 0, "failed network: connection closed", 0},
		{"refused", answer(429, `{"error":{"type":"share","code":"rate_limit_exceeded"}}`), 0, "refused 429 share", 0},
		{"no room", answer(503, `{"error":{"type":"overloaded","code":"overloaded"}}`), 0, "refused 503 overloaded", 0},
		{"refused in Anthropic's words", answer(429, `{"type":"error","error":{"type":"rate_limit_error"}}`), 0, "refused 429 rate_limit_error", 0},
		{"refused by a proxy", answer(429, `<html>`), 0, "refused 429", 0},
		{"server error", answer(502, `{"error":{"type":"upstream_error"}}`), 0, "failed 502 upstream_error", 0},
		{"only a code", answer(401, `{"error":{"code":"invalid_api_key"}}`), 0, "failed 401 invalid_api_key", 0},
		{"redirect", answer(302, ``, "Location", "/elsewhere"), 0, "failed 302", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := steady(10)
			x.Stream = c.stream
			inBubble(t, c.h, plan(time.Second, x), func(r *Report) {
				f := r.Total
				got := map[int64]string{f.OK: "ok", f.Refused: "refused", f.Failed: "failed"}[f.Offered]
				for _, k := range append(f.Refusals, f.Failures...) {
					got += " " + k.Kind
					if k.Count != f.Offered {
						t.Errorf("%d of %d are %s", k.Count, f.Offered, k.Kind)
					}
				}
				if got != c.want || f.Offered != 10 || f.Input+f.Output != 10*c.tokens {
					t.Errorf("got %q with %d tokens, want %q with %d\n%+v", got, f.Input+f.Output, c.want, 10*c.tokens, f)
				}
			})
		})
	}
}

// What is broken off by the plan is no failure, is told apart from what came whole, and reaches
// the server as a client that goes.
func TestDisconnects(t *testing.T) {
	m := model(t, mock.Config{FirstToken: 100 * time.Millisecond, TokensPerSecond: 20})
	x := steady(20)
	x.Stream, x.Disconnect, x.Output = 1, 0.3, distribution.Constant(20)
	inBubble(t, m, plan(20*time.Second, x), func(r *Report) {
		f := r.Total
		s := m.Stats()
		if f.Broken < 90 || f.Broken > 150 || f.OK+f.Broken != 400 || f.Failed != 0 {
			t.Errorf("%+v", f)
		}
		if f.Times.TTFT.Due.Count != 400 || f.Times.Latency.Due.Count != f.OK {
			t.Errorf("first token of %d, the end of %d of %d whole ones", f.Times.TTFT.Due.Count, f.Times.Latency.Due.Count, f.OK)
		}
		if s.Cancelled < f.Broken-20 || s.Cancelled > f.Broken { // the last part may be broken off behind the end
			t.Errorf("%d broken off, the server saw %d go", f.Broken, s.Cancelled)
		}
	})
}

// A storm takes its share of the streams that run, at once.
func TestStorm(t *testing.T) {
	m := model(t, mock.Config{TokensPerSecond: 10})
	x := steady(50)
	x.Stream, x.Output, x.Storm = 1, distribution.Constant(20), Storm{Every: 6 * time.Second, Share: 0.5}
	inBubble(t, m, plan(10*time.Second, x), func(r *Report) {
		f := r.Total // of 1.9 s each, 95 run at once
		if f.Broken < 35 || f.Broken > 60 || f.OK+f.Broken != 500 {
			t.Errorf("%d broken off, %d ok", f.Broken, f.OK)
		}
	})
}

// refuser refuses each call so many times, and notes when it is asked.
type refuser struct {
	mu    sync.Mutex
	began time.Time
	asked []string
	times int
	h     http.HandlerFunc
}

func (s *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	s.asked = append(s.asked, fmt.Sprintf("%s at %.1f", r.Header.Get("X-Stainless-Retry-Count"), time.Since(s.began).Seconds()))
	if len(s.asked) > s.times {
		_, _ = io.WriteString(w, plainAnswer)
		return
	}
	s.h(w, r)
}

func TestRetries(t *testing.T) {
	soon := []string{"retry-after-ms", "1500", "Retry-After", "2"}
	for _, c := range []struct {
		name  string
		retry Retry
		times int
		h     http.HandlerFunc
		asked []string
		ok    bool
	}{
		{"none", RetryNone, 1, answer(429, ``, soon...), []string{" at 0.0"}, false},
		{"hinted comes back when told, to the millisecond", RetryHinted, 4, answer(429, ``, soon...), []string{"0 at 0.0", "1 at 1.5", "2 at 3.0", "3 at 4.5", "4 at 6.0"}, true},
		{"hinted has no more patience than the timeout", RetryHinted, 99, answer(429, ``, "Retry-After", "4"), []string{"0 at 0.0", "1 at 4.0", "2 at 8.0"}, false},
		{"hinted is not told", RetryHinted, 1, answer(429, ``), []string{"0 at 0.0"}, false},
		{"hinted is told not to", RetryHinted, 1, answer(429, ``, "Retry-After", "1", "x-should-retry", "false"), []string{"0 at 0.0"}, false},
		{"sdk comes back twice when told", RetrySDK, 99, answer(429, ``, soon...), []string{"0 at 0.0", "1 at 1.5", "2 at 3.0"}, false},
		{"sdk does not stay away for an hour", RetrySDK, 99, answer(429, ``, "Retry-After", "3600"), []string{"0 at 0.0", "1 at 0.4", "2 at 1.2"}, false},
		{"sdk stays away for a minute", RetrySDK, 1, answer(429, ``, "Retry-After", "60"), []string{"0 at 0.0", "1 at 60.0"}, true},
		{"sdk backs off by itself", RetrySDK, 99, answer(500, ``), []string{"0 at 0.0", "1 at 0.4", "2 at 1.2"}, false},
		{"sdk does not repeat what is wrong", RetrySDK, 99, answer(400, ``), []string{"0 at 0.0"}, false},
		{"sdk is told not to", RetrySDK, 99, answer(429, ``, "x-should-retry", "false"), []string{"0 at 0.0"}, false},
		{"sdk comes back to a broken connection", RetrySDK, 1, hangUp, []string{"0 at 0.0", "1 at 0.4"}, true},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			x := steady(1)
			x.Retry = c.retry
			p := plan(time.Second, x)
			p.Timeout = 10 * time.Second
			due := drain(p)[0].At // a clock has a phase
			s := &refuser{began: time.Now().Add(due), times: c.times, h: c.h}
			r := serveAndRun(t.Context(), s, p)
			f := r.Total
			testkit.Same(t, c.asked, s.asked)
			if f.OK == 1 != c.ok || f.Offered != 1 || f.Attempts != int64(len(c.asked)) {
				t.Errorf("%+v", f)
			}
			if c.ok && f.Times.Latency.Due.Max < 0.3 {
				t.Errorf("the latency since due is %v: the refusals are not in it", f.Times.Latency.Due.Max)
			}
		})
	}
}

// TestUnauthorized: a run stops after ten answers if each of them is a 401, but not if another tenant's key
// is right, or may be.
func TestUnauthorized(t *testing.T) {
	for _, c := range []struct {
		name    string
		statusB int
		slowB   time.Duration
		stopped bool
	}{
		{"all keys are wrong", 401, 0, true},
		{"one key is right", 200, 0, false},
		{"one key is right, and answers take long", 200, 20 * time.Second, false},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			a := steady(5)
			b := steady(5)
			a.Name = "a"
			b.Name = "b"
			b.Key = "right"
			p := plan(30*time.Second, a, b)
			began := time.Now()
			r := serveAndRun(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer right" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				time.Sleep(c.slowB)
				w.WriteHeader(c.statusB)
				_, _ = io.WriteString(w, plainAnswer)
			}), p)
			took := time.Since(began)
			if c.stopped && (r.Unauthorized < 10 || r.Unauthorized > 12 || took > 3*time.Second) {
				t.Errorf("it ended after %v and %d answers", took, r.Unauthorized)
			}
			if !c.stopped && (r.Unauthorized != 0 || took < 29*time.Second) {
				t.Errorf("it ended after %v, with %d unauthorized", took, r.Unauthorized)
			}
		})
	}
}

// Ctrl-C: what is open is given up at once, and said; the time that was measured is shorter.
func TestCutShort(t *testing.T) {
	m := model(t, mock.Config{FirstToken: 2 * time.Second})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		p := plan(time.Hour, steady(10))
		p.Warmup = 4 * time.Second
		r := serveAndRun(ctx, m, p)
		f := r.Total
		if r.Seconds != 6 || f.Offered != 60 || f.OK != 40 || f.Unfinished != 20 || f.Failed != 0 {
			t.Errorf("%v s, %+v", r.Seconds, f)
		}
		// Of the calls of the warm-up, those of its last 2 s ended in the measured time.
		if f.GoodRequests < 9.9 || f.GoodRequests > 10.1 {
			t.Errorf("%v calls a second", f.GoodRequests)
		}
		if !strings.Contains(strings.Join(r.Notes, ""), "cut short after 10.0 s; 20 calls were still open") {
			t.Errorf("notes are %q", r.Notes)
		}
	})
}

func TestHintOf(t *testing.T) {
	for _, c := range []struct {
		ms, after, date string
		want            time.Duration
	}{
		{"250", "1", "", 250 * time.Millisecond},
		{"", "3", "", 3 * time.Second},
		{"", "0.5", "", 500 * time.Millisecond},
		{"x", "2", "", 2 * time.Second},
		{"-1", "0", "", 0},
		{"1e300", "1e300", "", 0},
		{"", "Sat, 21 Nov 2026 12:00:09 GMT", "Sat, 21 Nov 2026 12:00:05 GMT", 4 * time.Second},
		{"", "Sat, 21 Nov 2026 12:00:01 GMT", "Sat, 21 Nov 2026 12:00:05 GMT", 0},
		{"", "soon", "", 0},
	} {
		h := http.Header{}
		h.Set("retry-after-ms", c.ms)
		h.Set("Retry-After", c.after)
		h.Set("Date", c.date)
		if got := hintOf(h); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
