package telemetry

import "github.com/prometheus/client_golang/prometheus"

// UpstreamState is the state of a pool's upstream, and its calls by their
// outcome.
type UpstreamState struct {
	Pool, Upstream string
	Up, Busy       bool
	Tries          map[string]int64
	// Limit and Used are its own limits by axis, and Tokens the tokens of all calls that were counted there. They are nil and 0
	// in a pool whose upstreams have no limits of their own.
	Limit, Used map[string]int64
	Tokens      int64
	// Foreign is how many tokens a minute others use by axis, and ForeignPart the largest part of a limit that they use.
	Foreign     map[string]int64
	ForeignPart float64
}

// WatchUpstreams registers the metrics of the pools' upstreams.
func (m *Metrics) WatchUpstreams(states func() []UpstreamState) {
	m.registry.MustRegister(scraped(func(ch chan<- prometheus.Metric) { collectUpstreams(ch, states()) }))
}

var (
	descUpstreamUp      = desc("upstream_up", "Whether an upstream of a pool works, by its last calls; 0 while it is left out or probed.", "pool", "upstream")
	descUpstreamBusy    = desc("upstream_busy", "Whether an upstream has asked for a pause that is not over.", "pool", "upstream")
	descUpstreamTries   = desc("upstream_tries_total", "Calls sent to an upstream, by their outcome.", "pool", "upstream", "outcome")
	descUpstreamLimit   = desc("upstream_limit", "An upstream's own limit.", "pool", "upstream", "axis")
	descUpstreamUsed    = desc("upstream_used", "How much of an upstream's own limit is used.", "pool", "upstream", "axis")
	descUpstreamForeign = desc("upstream_foreign_tokens", "Tokens that others with the same key used of an upstream's limit in the last minute.", "pool", "upstream", "axis")
	descUpstreamOthers  = desc("upstream_foreign_ratio", "The largest part of a limit of an upstream that others with the same key use.", "pool", "upstream")
	descUpstreamTokens  = desc("upstream_tokens_total", "Tokens of ended calls that were counted at an upstream with limits.", "pool", "upstream")
)

func collectUpstreams(ch chan<- prometheus.Metric, states []UpstreamState) {
	for _, s := range states {
		ch <- prometheus.MustNewConstMetric(descUpstreamUp, prometheus.GaugeValue, number(s.Up), s.Pool, s.Upstream)
		ch <- prometheus.MustNewConstMetric(descUpstreamBusy, prometheus.GaugeValue, number(s.Busy), s.Pool, s.Upstream)
		for outcome, n := range s.Tries {
			ch <- prometheus.MustNewConstMetric(descUpstreamTries, prometheus.CounterValue, float64(n), s.Pool, s.Upstream, outcome)
		}
		for axis, limit := range s.Limit {
			ch <- prometheus.MustNewConstMetric(descUpstreamLimit, prometheus.GaugeValue, float64(limit), s.Pool, s.Upstream, axis)
			ch <- prometheus.MustNewConstMetric(descUpstreamUsed, prometheus.GaugeValue, float64(s.Used[axis]), s.Pool, s.Upstream, axis)
		}
		for axis, n := range s.Foreign {
			ch <- prometheus.MustNewConstMetric(descUpstreamForeign, prometheus.GaugeValue, float64(n), s.Pool, s.Upstream, axis)
		}
		if s.Foreign != nil {
			ch <- prometheus.MustNewConstMetric(descUpstreamOthers, prometheus.GaugeValue, s.ForeignPart, s.Pool, s.Upstream)
		}
		if s.Limit != nil {
			ch <- prometheus.MustNewConstMetric(descUpstreamTokens, prometheus.CounterValue, float64(s.Tokens), s.Pool, s.Upstream)
		}
	}
}
