package load

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/distribution"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/leaktest"
	"github.com/llmgov/llmgov/internal/testkit/pipenet"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// inBubble runs a plan against a handler in virtual time.
func inBubble(t *testing.T, h http.Handler, p *Plan, check func(*Report)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { check(serveAndRun(t.Context(), h, p)) })
}

func serveAndRun(ctx context.Context, h http.Handler, p *Plan) *Report {
	l := pipenet.Listen()
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	transport := NewTransport(p.MaxInFlight)
	transport.DialContext = l.Dial
	defer func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-served
	}()
	return Run(ctx, p, Options{URL: "http://server/v1/", Transport: transport})
}

// steady asks at a constant rate for short answers.
func steady(rate float64) Tenant {
	t := DefaultTenant()
	t.Rate = rate
	t.Arrivals = Constant
	t.Stream = 0
	t.Prompt, t.Output = distribution.Constant(10), distribution.Constant(5)
	return t
}

func model(t *testing.T, c mock.Config) *mock.Server {
	t.Helper()
	return testkit.Must(mock.New(c))(t)
}

const plainAnswer = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}`

// stalls answers at once, but not in the time from 5 s to 7 s.
func stalls() http.Handler {
	began := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if at := time.Since(began); at >= 5*time.Second && at < 7*time.Second {
			time.Sleep(7*time.Second - at)
		}
		_, _ = io.WriteString(w, plainAnswer)
	})
}

// Coordinated omission: a server stalls for 2 s, and only four calls can be in flight. What the
// server saw is four slow calls of two thousand. What users would have seen is two hundred.
func TestStallShowsInLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(20*time.Second, steady(100))
		p.MaxInFlight = 4
		r := serveAndRun(t.Context(), stalls(), p)
		f := r.Total
		if f.Offered != 2000 || f.OK != 2000 {
			t.Fatalf("%d of %d ok: %v", f.OK, f.Offered, f.Failures)
		}
		due := f.Times.Latency.Due
		sent := f.Times.Latency.Sent
		if sent.P99 > 0.01 || sent.Max < 1.9 {
			t.Errorf("since sent: %+v; want a fast p99, for only four calls were open", sent)
		}
		// A tenth of all calls was due while it stalled: evenly spread, 99 % of all is at 1.8 s.
		if due.P99 < 1.75 || due.P99 > 1.85 || due.Max < 1.95 || due.P90 > 0.05 {
			t.Errorf("since due: %+v; want a p99 of 1.8 s", due)
		}
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "held back, because 4") {
			t.Errorf("notes are %q", r.Notes)
		}
	})
}

// Without a bound the calls go out when they are due, however long others take.
func TestCallsAreSentWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := serveAndRun(t.Context(), stalls(), plan(20*time.Second, steady(100)))
		f := r.Total
		if f.Times.Late.Max > 0 || f.Times.Latency.Sent.P99 < 1.75 || *f.Times.Latency.Sent != *f.Times.Latency.Due {
			t.Errorf("late %+v, since sent %+v, since due %+v", f.Times.Late, f.Times.Latency.Sent, f.Times.Latency.Due)
		}
	})
}

// A server that never answers: what cannot be sent is told, and what was sent is in the latencies
// with the time after which it was given up.
func TestDeadServer(t *testing.T) {
	p := plan(10*time.Second, steady(10))
	p.Timeout = 4 * time.Second
	p.MaxInFlight = 10
	inBubble(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}), p, func(r *Report) {
		f := r.Total
		if f.Offered != 100 || f.Sent+f.Unsent != 100 || f.Unsent < 60 || f.Failed != f.Sent || f.OK != 0 {
			t.Errorf("%+v", f)
		}
		if len(f.Failures) != 1 || f.Failures[0].Kind != "timeout" {
			t.Errorf("failures are %+v", f.Failures)
		}
		if f.Times.Latency.Sent.P50 < 3.99 || f.Times.Latency.Due.Max < 7 {
			t.Errorf("latencies are %+v", f.Times.Latency)
		}
	})
}

// Streams: times to the token, and the server's own count of tokens.
func TestStreams(t *testing.T) {
	for _, path := range []Path{Chat, Responses} {
		m := model(t, mock.Config{FirstToken: 300 * time.Millisecond, TokensPerSecond: 50})
		x := steady(20)
		x.Stream, x.Path, x.Output = 1, path, distribution.Constant(21)
		inBubble(t, m, plan(10*time.Second, x), func(r *Report) {
			f := r.Total
			if f.OK != 200 || f.NoUsage != 0 || f.Output != 200*21 {
				t.Fatalf("path %d: %+v", path, f)
			}
			for what, at := range map[string][2]float64{
				"first token": {f.Times.TTFT.Due.P50, 0.3}, "between": {f.Times.Between.P50, 0.02}, "whole": {f.Times.Latency.Due.P99, 0.7},
			} {
				if at[0] < at[1]*0.998 || at[0] > at[1]*1.002 {
					t.Errorf("path %d: %s took %v s, want %v", path, what, at[0], at[1])
				}
			}
			if f.Times.Between.Count != 200*20 {
				t.Errorf("path %d: %d gaps", path, f.Times.Between.Count)
			}
			if s := m.Stats(); s.PromptTokens != f.Input || s.OutputTokens != f.Output {
				t.Errorf("path %d: tokens are %d in, %d out; the server counted %+v", path, f.Input, f.Output, s)
			}
		})
	}
}
