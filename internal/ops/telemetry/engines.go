package telemetry

import "github.com/prometheus/client_golang/prometheus"

// EngineState is the load of an upstream's server, as its own metrics told it. If it is not Up, they were not read lately.
type EngineState struct {
	Upstream         string
	Up               bool
	Running, Waiting int64
	KVUse            float64
}

// WatchEngines registers the metrics of upstreams' servers.
func (m *Metrics) WatchEngines(states func() []EngineState) {
	m.registry.MustRegister(scraped(func(ch chan<- prometheus.Metric) { collectEngines(ch, states()) }))
}

var (
	descEngineUp      = desc("engine_up", "Whether the metrics of an upstream's server were read in the last seconds.", "upstream")
	descEngineRunning = desc("engine_running", "Calls that run in an upstream's server, whoever made them.", "upstream")
	descEngineWaiting = desc("engine_waiting", "Calls that wait in an upstream's server.", "upstream")
	descEngineKVUse   = desc("engine_kv_cache_use", "The part of its KV cache that an upstream's server uses, 0 to 1; 0 if it does not say.", "upstream")
)

// collectEngines leaves out old figures of a server.
func collectEngines(ch chan<- prometheus.Metric, states []EngineState) {
	for _, s := range states {
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, s.Upstream)
		}
		if !s.Up {
			gauge(descEngineUp, 0)
			continue
		}
		gauge(descEngineUp, 1)
		gauge(descEngineRunning, float64(s.Running))
		gauge(descEngineWaiting, float64(s.Waiting))
		gauge(descEngineKVUse, s.KVUse)
	}
}
