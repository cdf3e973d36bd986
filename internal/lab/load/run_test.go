package load

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/internal/test/testkit/pipenet"
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

func drain(p *Plan) []Event {
	var all []Event
	for s := NewSchedule(p); ; {
		ev, ok := s.Next()
		if !ok {
			return all
		}
		all = append(all, ev)
	}
}

func plan(d time.Duration, list ...Tenant) *Plan {
	return &Plan{Tenants: list, For: d, Seed: 1, Timeout: time.Minute, MaxInFlight: 1000}
}

func anyTenant(t *rapid.T, name string) Tenant {
	x := DefaultTenant()
	x.Name = name
	x.Rate = rapid.Float64Range(0.5, 80).Draw(t, "rate")
	x.Arrivals = rapid.SampledFrom([]Arrivals{Poisson, Constant}).Draw(t, "arrivals")
	x.Stream = rapid.Float64Range(0, 1).Draw(t, "stream")
	x.Disconnect = rapid.Float64Range(0, 1).Draw(t, "disconnect")
	if rapid.Bool().Draw(t, "bursts") {
		x.Burst = Burst{rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(t, "every"), rapid.Int64Range(1, 30).Draw(t, "size")}
	}
	if rapid.Bool().Draw(t, "storms") {
		x.Storm = Storm{4 * time.Second, 1}
	}
	return x
}

// The same plan and seed ask for the same, in the order of time, within the run.
func TestSchedule_IsAFunctionOfPlanAndSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plan(20*time.Second, anyTenant(t, "a"), anyTenant(t, "b"))
		p.Seed = rapid.Uint64().Draw(t, "seed")
		all := drain(p)
		if d := cmp.Diff(all, drain(p)); d != "" {
			t.Fatal(d)
		}
		if !slices.IsSortedFunc(all, func(a, b Event) int { return int(a.At - b.At) }) {
			t.Fatal("not in order")
		}
		if n := len(all); n > 0 && (all[0].At < 0 || all[n-1].At >= p.end()) {
			t.Fatalf("from %v to %v", all[0].At, all[n-1].At)
		}
	})
}

// Nobody's calls depend on what others ask, nor lengths on how often is asked.
func TestSchedule_TenantsAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyTenant(t, "a")
		a.Burst = Burst{}
		a.Storm = Storm{}
		alone := drain(plan(20*time.Second, a))
		var among []Event
		for _, ev := range drain(plan(20*time.Second, a, anyTenant(t, "b"))) {
			if ev.Tenant == 0 {
				among = append(among, ev)
			}
		}
		if d := cmp.Diff(alone, among); d != "" {
			t.Fatalf("another tenant changes it: %s", d)
		}
		faster := a
		faster.Rate *= 2
		more := drain(plan(20*time.Second, faster))
		for i := range min(len(alone), len(more)) {
			if alone[i].Prompt != more[i].Prompt || alone[i].Output != more[i].Output || alone[i].Stream != more[i].Stream {
				t.Fatalf("call %d differs at another rate", i)
			}
		}
	})
}

// A clock does not drift, and hits every beat.
func TestSchedule_Constant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := DefaultTenant()
		x.Arrivals, x.Rate = Constant, rapid.Float64Range(0.3, 900).Draw(t, "rate")
		all := drain(plan(time.Minute, x))
		if n := float64(len(all)); math.Abs(n-x.Rate*60) > 1 {
			t.Fatalf("%v calls in a minute at %v a second", n, x.Rate)
		}
		for k, ev := range all {
			if want := all[0].At.Seconds() + float64(k)/x.Rate; math.Abs(ev.At.Seconds()-want) > 1e-6 {
				t.Fatalf("call %d is due at %v, want %v s", k, ev.At, want)
			}
		}
	})
}

// Poisson: the mean rate, and gaps that spread as much as they are long.
func TestSchedule_Poisson(t *testing.T) {
	x := DefaultTenant()
	x.Rate = 200
	for seed := range uint64(5) {
		p := plan(5*time.Minute, x)
		p.Seed = seed
		all := drain(p)
		n := float64(len(all))
		if want := 200.0 * 300; math.Abs(n-want) > 5*math.Sqrt(want) {
			t.Errorf("seed %d: %v calls, want about %v", seed, n, want)
		}
		var sum, squares float64
		for i := range all[1:] {
			gap := (all[i+1].At - all[i].At).Seconds()
			sum = sum + gap
			squares = squares + gap*gap
		}
		mean := sum / (n - 1)
		if spread := math.Sqrt(squares/(n-1)-mean*mean) / mean; math.Abs(spread-1) > 0.03 {
			t.Errorf("seed %d: the gaps' spread is %.3f of their mean, want 1", seed, spread)
		}
	}
}

func TestSchedule_Bursts(t *testing.T) {
	x := DefaultTenant()
	x.Rate = 0
	x.Burst = Burst{3 * time.Second, 7}
	x.Storm = Storm{Every: 4 * time.Second, Share: 1}
	at := map[time.Duration]int{}
	storms := 0
	for _, ev := range drain(plan(10*time.Second, x)) {
		if ev.Storm {
			storms++
		} else {
			at[ev.At]++
		}
	}
	testkit.Same(t, map[time.Duration]int{3 * time.Second: 7, 6 * time.Second: 7, 9 * time.Second: 7}, at)
	if storms != 2 {
		t.Errorf("%d storms, want 2", storms)
	}
}

// Shares and lengths come out as they were asked for.
func TestSchedule_Draws(t *testing.T) {
	x := DefaultTenant()
	x.Rate = 100
	x.Stream = 0.5
	x.Disconnect = 0.2
	x.Prompt, x.Output = distribution.Distribution{Mean: 300, Sigma: 0.5, Min: 1, Max: 1e6}, distribution.Constant(40)
	var n, streams, broken, prompt float64
	for _, ev := range drain(plan(5*time.Minute, x)) {
		n++
		prompt += float64(ev.Prompt)
		if ev.Output != 40 {
			t.Fatalf("output %d", ev.Output)
		}
		if ev.Stream {
			streams++
		}
		if ev.BreakAfter > 0 {
			broken++
		}
		if ev.BreakAfter > 0 && !ev.Stream || ev.BreakAfter > 40 {
			t.Fatalf("%+v", ev)
		}
	}
	for what, got := range map[string][2]float64{
		"streams": {streams / n, 0.5}, "broken off": {broken / streams, 0.2}, "prompt": {prompt / n / 300, 1},
	} {
		if math.Abs(got[0]-got[1]) > 0.02 {
			t.Errorf("%s: %.3f, want %.3f", what, got[0], got[1])
		}
	}
}

// A rate at which nothing is due within any run is no rate at which time runs backwards.
func TestSchedule_TinyRate(t *testing.T) {
	x := DefaultTenant()
	x.Rate = 1e-300
	if all := drain(plan(Longest, x)); len(all) != 0 {
		t.Errorf("%d calls, the first at %v", len(all), all[0].At)
	}
}

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
				testkit.Same(t, c.want, got)
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
