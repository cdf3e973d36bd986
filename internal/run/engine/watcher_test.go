package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// world is a server whose metrics a Watcher reads in virtual time.
type world struct {
	*Watcher
	ctx    context.Context
	target Target
	listed bool // the policy names it
	answer func(*http.Request) (*http.Response, error)
	start  time.Time
	asked  []time.Duration // since the start
	rounds int
	log    bytes.Buffer
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.asked = append(w.asked, time.Since(w.start))
	return w.answer(r)
}

func (w *world) targets() []Target {
	if w.listed {
		return []Target{w.target}
	}
	return nil
}

// state is the server's state after so much more time, with a round in each second.
func (w *world) state(d time.Duration) (State, bool) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		at := time.Now()
		w.round(w.ctx)
		time.Sleep(every - time.Since(at))
	}
	return w.State("local")
}

func says(status int, text string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
}

func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

const good = "tgi_batch_current_size 4\ntgi_queue_size 1\n"

// watching gives a test a Watcher in virtual time.
func watching(t *testing.T, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			ctx: t.Context(), target: Target{Upstream: "local", URL: "http://local/metrics", Metrics: Kinds["tgi"]},
			listed: true, answer: says(200, good), start: time.Now(),
		}
		w.Watcher = NewWatcher(Options{
			Targets: w.targets, Heard: func() { w.rounds++ },
			Client: &http.Client{Transport: w}, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		})
		f(t, w)
	})
}

func TestWatcher_ReadsEachSecond(t *testing.T) {
	watching(t, func(t *testing.T, w *world) {
		if _, ok := w.state(0); ok {
			t.Error("a server that was never read has a state")
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*every+every/2)
		defer stop()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		s, ok := w.State("local")
		if want := (Signals{Running: 4, Waiting: 1}); !ok || !s.Fresh || s.Signals != want || s.Err != nil {
			t.Errorf("the state is %+v", s)
		}
		if len(w.asked) != 10 || w.rounds != 10 {
			t.Errorf("it was asked %d times in %d rounds, not 10", len(w.asked), w.rounds)
		}
	})
}

// A server that cannot be read is asked less and less often, its signals grow stale, and the log says so once.
func TestWatcher_BacksOff(t *testing.T) {
	watching(t, func(t *testing.T, w *world) {
		w.state(2 * every)
		w.answer = silence
		if s, _ := w.state(2 * every); !s.Fresh || s.Err == nil {
			t.Errorf("shortly after a failure the state is %+v", s)
		}
		if s, _ := w.state(2 * every); s.Fresh || !errors.Is(s.Err, context.DeadlineExceeded) {
			t.Errorf("4 s after the last reading the state is %+v", s)
		}
		before := len(w.asked)
		w.state(5 * time.Minute)
		if n := len(w.asked) - before; n > 14 {
			t.Errorf("it was asked %d times in 5 minutes", n)
		}
		w.answer = says(200, good)
		if s, _ := w.state(longestPause + every); !s.Fresh || s.Err != nil {
			t.Errorf("when it can be read again the state is %+v", s)
		}
		if bad, again := strings.Count(w.log.String(), "cannot be read;"), strings.Count(w.log.String(), "read again"); bad != 1 || again != 1 {
			t.Errorf("the log has %d and %d lines:\n%s", bad, again, w.log.String())
		}
	})
}

func TestWatcher_RefusesWhatIsNoMetrics(t *testing.T) {
	endless := "# " + strings.Repeat("x", largest) + "\n" + good
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"an error":           says(401, "no"),
		"another page":       says(200, "<html>"),
		"more than is read":  says(200, endless),
		"a part of its size": says(200, "tgi_batch_current_size 4"),
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, func(t *testing.T, w *world) {
				w.answer = answer
				if s, ok := w.state(2 * every); !ok || s.Fresh || s.Err == nil {
					t.Errorf("the state is %+v", s)
				}
			})
		})
	}
}

// The error says what is wrong with the server, and no more of what it sent than fits in a line.
func TestWatcher_ErrorsSayWhy(t *testing.T) {
	for want, answer := range map[string]func(*http.Request) (*http.Response, error){
		"its metrics are larger than 2 MiB": says(200, good+strings.Repeat("# x\n", largest/4)),
		"its status is 500 xxxxxxxx": func(r *http.Request) (*http.Response, error) {
			resp, err := says(500, "")(r)
			resp.Status = "500 " + strings.Repeat("x", 1<<20)
			return resp, err
		},
	} {
		t.Run(want, func(t *testing.T) {
			watching(t, func(t *testing.T, w *world) {
				w.answer = answer
				s, _ := w.state(every)
				if s.Err == nil || !strings.HasPrefix(s.Err.Error(), want) || len(s.Err.Error()) > 300 {
					t.Errorf("the error is %.100q, not %q", s.Err, want)
				}
			})
		})
	}
}

// The key goes where the config says, and not on to where a server points.
func TestWatcher_SendsAKeyOnlyIfTold(t *testing.T) {
	watching(t, func(t *testing.T, w *world) {
		var sent []string
		w.answer = func(r *http.Request) (*http.Response, error) {
			sent = append(sent, r.URL.Host+" "+r.Header.Get("Authorization"))
			resp, _ := says(http.StatusTemporaryRedirect, "")(r)
			resp.Header.Set("Location", "http://elsewhere/metrics")
			return resp, nil
		}
		w.state(every)
		w.target.Key = "secret"
		w.state(every)
		for _, s := range sent {
			if s != "local " && s != "local Bearer secret" {
				t.Errorf("it sent %q", s)
			}
		}
		if len(sent) < 2 || sent[len(sent)-1] != "local Bearer secret" {
			t.Errorf("it sent %q", sent)
		}
	})
}

// A server that the policy has no more is forgotten, and one of another address begins anew.
func TestWatcher_FollowsThePolicy(t *testing.T) {
	watching(t, func(t *testing.T, w *world) {
		w.answer = says(500, "")
		w.state(every)
		w.target.URL = "http://other/metrics"
		w.answer = says(200, good)
		if s, ok := w.state(every); !ok || !s.Fresh {
			t.Errorf("a server with a new address has the state %+v", s)
		}
		w.listed = false
		if s, ok := w.state(every); ok {
			t.Errorf("a server that is gone has the state %+v", s)
		}
	})
}

// The lines are as the servers write them: of vLLM 0.32 and llama.cpp 11434 as read from running ones, of the others as in
// their documentation.
func TestRead_RealServers(t *testing.T) {
	for _, c := range []struct {
		name  string
		names Metrics
		text  string
		want  Signals
	}{
		{"vllm", Kinds["vllm"], `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 7.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.4375
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",model_name="m"} 1.0
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 1.0
vllm:e2e_request_latency_seconds_count{engine="0",model_name="m"} 1.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="m"} 0.2
`, Signals{Running: 7, Waiting: 2, KVUse: 0.4375}},
		{"vllm of two engines", Kinds["vllm"], `vllm:num_requests_running{engine="0"} 7
vllm:num_requests_running{engine="1"} 5
vllm:num_requests_waiting{engine="0"} 0
vllm:num_requests_waiting{engine="1"} 3
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
`, Signals{Running: 12, Waiting: 3, KVUse: 0.75}},
		{"older vllm", Kinds["vllm"], `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 1.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 0.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
`, Signals{Running: 1, KVUse: 0.5}},
		{"sglang", Kinds["sglang"], `# HELP sglang:token_usage The token usage
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.28
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 162.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 2826.0
`, Signals{Running: 162, Waiting: 2826, KVUse: 0.28}},
		{"tgi", Kinds["tgi"], "# TYPE tgi_batch_current_size gauge\ntgi_batch_current_size 4\n\n# TYPE tgi_queue_size gauge\ntgi_queue_size 1\n", Signals{Running: 4, Waiting: 1}},
		{"llama.cpp", Kinds["llamacpp"], `# HELP llamacpp:tokens_predicted_total Number of generation tokens processed
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 900
# HELP llamacpp:requests_processing Number of requests processing
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 8
# HELP llamacpp:requests_deferred Number of requests deferred
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 3
`, Signals{Running: 8, Waiting: 3}},
		{"older llama.cpp", Kinds["llamacpp"], "llamacpp:requests_processing 8\nllamacpp:requests_deferred 3\nllamacpp:kv_cache_usage_ratio 0.63\n", Signals{Running: 8, Waiting: 3, KVUse: 0.63}},
		{"generic", Metrics{Waiting: "backlog", MaxRunning: "seats"}, "seats 16\nbacklog 2\n", Signals{Waiting: 2, MaxRunning: 16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(c.text), c.names)
			if err != nil || got != c.want {
				t.Errorf("read %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestRead_Refuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a page", "<html>", "are not in Prometheus' text format"},
		{"nothing", "", "has no metric tgi_batch_current_size"},
		{"a part", "tgi_batch_current_size 4\n", "has no metric tgi_queue_size"},
		{"no number", "tgi_batch_current_size 4\ntgi_queue_size NaN\n", "metric tgi_queue_size is NaN"},
		{"less than nothing", "tgi_batch_current_size -4\ntgi_queue_size 0\n", "metric tgi_batch_current_size is -4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.text), Kinds["tgi"])
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

func TestRead_Bounds(t *testing.T) {
	got, err := Read(strings.NewReader("vllm:num_requests_running +Inf\nvllm:num_requests_waiting 1e300\nvllm:kv_cache_usage_perc 7\n"), Kinds["vllm"])
	if want := (Signals{Running: most, Waiting: most, KVUse: 1}); err != nil || got != want {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
}

// What a server writes is cut in errors, and sums of its gauges are bounded, however many it has.
func TestRead_HostileText(t *testing.T) {
	_, err := Read(strings.NewReader("tgi_queue_size "+strings.Repeat("9x", 1<<19)+"\n"), Kinds["tgi"])
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	got, err := Read(strings.NewReader("tgi_batch_current_size +Inf\ntgi_batch_current_size 1e300\ntgi_queue_size 0\n"), Kinds["tgi"])
	if err != nil || got.Running != most {
		t.Errorf("read %+v, %v", got, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("vllm:num_requests_running{engine=\"0\"} 7\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(strings.NewReader(text), Kinds["vllm"])
		if err == nil && (s.Running < 0 || s.Waiting < 0 || s.KVUse < 0 || s.KVUse > 1) {
			t.Errorf("read %+v", s)
		}
	})
}

// A server with a root of its own is read by the TLS of its target, on one connection.
func TestWatcher_TLS(t *testing.T) {
	opened := map[string]bool{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened[r.RemoteAddr] = true
		_, _ = io.WriteString(w, good)
	}))
	defer server.Close()
	target := Target{Upstream: "local", URL: server.URL, Metrics: Kinds["tgi"], TLS: server.Client().Transport.(*http.Transport).TLSClientConfig}
	w := NewWatcher(Options{Targets: func() []Target { return []Target{target} }, Heard: func() {}, Log: slog.New(slog.DiscardHandler)})
	w.round(t.Context())
	w.round(t.Context())
	if s, ok := w.State("local"); !ok || s.Err != nil || s.Running != 4 || len(opened) != 1 {
		t.Errorf("%+v, on %d connections", s, len(opened))
	}
}
