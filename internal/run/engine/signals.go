package engine

import (
	"fmt"
	"io"
	"math"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/llmgov/llmgov/internal/lib/text"
)

// Signals are a server's own figures of its load.
type Signals struct {
	Running int64
	Waiting int64
	// KVUse is the part of the KV cache in use, 0 to 1; 0 if the server does not say it.
	KVUse float64
	// MaxRunning is how many calls the server runs at once at most; 0 if it does not say it.
	MaxRunning int64
}

// Metrics are the names of the gauges that hold a server's Signals. An empty one is not read.
type Metrics struct {
	Running string
	Waiting string
	KVUse   string
	// OlderKVUse is the name in older releases of the server.
	OlderKVUse string
	MaxRunning string
}

// Kinds are the names of known servers' gauges. vLLM calls the part of the cache in use a percentage, but it is 0 to 1.
// TGI tells nothing of it, and llama.cpp nothing since the cache became one for all slots.
var Kinds = map[string]Metrics{
	"vllm": {
		Running: "vllm:num_requests_running", Waiting: "vllm:num_requests_waiting",
		KVUse: "vllm:kv_cache_usage_perc", OlderKVUse: "vllm:gpu_cache_usage_perc",
	},
	"sglang":   {Running: "sglang:num_running_reqs", Waiting: "sglang:num_queue_reqs", KVUse: "sglang:token_usage"},
	"tgi":      {Running: "tgi_batch_current_size", Waiting: "tgi_queue_size"},
	"llamacpp": {Running: "llamacpp:requests_processing", Waiting: "llamacpp:requests_deferred", OlderKVUse: "llamacpp:kv_cache_usage_ratio"},
}

// most bounds how many calls a server may say that it has.
const most = 1 << 40

// Read reads a server's Signals from Prometheus' text format. A server of several engines has a gauge of each: calls are added
// up, and of caches the fullest counts.
func Read(from io.Reader, names Metrics) (Signals, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(from)
	if err != nil {
		return Signals{}, fmt.Errorf("its metrics are not in Prometheus' text format: %s", text.Brief(err.Error()))
	}
	var s Signals
	for _, gauge := range []struct {
		name string
		into *int64
	}{{names.Running, &s.Running}, {names.Waiting, &s.Waiting}, {names.MaxRunning, &s.MaxRunning}} {
		if gauge.name == "" {
			continue
		}
		list, err := values(families, gauge.name)
		if err != nil {
			return Signals{}, err
		}
		for _, v := range list {
			*gauge.into = min(*gauge.into+int64(min(v, most)), most)
		}
	}
	name := names.KVUse
	if older := names.OlderKVUse; families[older] != nil && families[name] == nil {
		name = older
	}
	if name == "" {
		return s, nil
	}
	list, err := values(families, name)
	if err != nil {
		return Signals{}, err
	}
	for _, v := range list {
		s.KVUse = max(s.KVUse, min(v, 1))
	}
	return s, nil
}

// values are those of a gauge, one of each of its label sets.
func values(families map[string]*dto.MetricFamily, name string) ([]float64, error) {
	family := families[name]
	if family == nil || len(family.Metric) == 0 {
		return nil, fmt.Errorf("it has no metric %s", name)
	}
	var list []float64
	for _, m := range family.Metric {
		v := m.GetGauge().GetValue() + m.GetUntyped().GetValue() + m.GetCounter().GetValue()
		if math.IsNaN(v) || v < 0 {
			return nil, fmt.Errorf("its metric %s is %v", name, v)
		}
		list = append(list, v)
	}
	return list, nil
}
