package engine

import (
	"strings"
	"testing"
)

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
