package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/governor"
)

// sharing is what is measured where limits are shared with other gateways.
type sharing struct {
	trips   prometheus.Counter
	latency *prometheus.HistogramVec
}

func newSharing() sharing {
	return sharing{
		trips: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "store_round_trips_total", Help: "How often the store that gateways share was asked something. No call waits for it.",
		}),
		latency: histogram("store_latency_seconds", "How long the store took to answer, or to fail.", []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}, "op"),
	}
}

// StoreAsked counts one round trip to the store that gateways share.
func (m *Metrics) StoreAsked(op string, took time.Duration) {
	m.sharing.trips.Inc()
	m.sharing.latency.WithLabelValues(op).Observe(took.Seconds())
}

// WatchSharing registers what is measured of limits that are shared. regions says which
// part of what all used of a pool in the last minute was used in each region.
func (m *Metrics) WatchSharing(state func() governor.State, regions func(pool string) map[string]float64) {
	m.registry.MustRegister(m.sharing.trips, m.sharing.latency, &shares{state, regions})
}

var (
	descGrant    = desc("grant_tokens", "Tokens that may still be handed out by the grant in force, until it expires.", "pool")
	descRegion   = desc("region_share_ratio", "Which part of what all gateways used of a pool in the last minute was used in a region.", "pool", "region")
	descDegraded = desc("degraded", "Whether a failure mode is in force in a pool: 1 of closed, open, local and learning, or none.", "pool", "mode")
)

// shares reads how limits are shared at scrape time. It asks no store.
type shares struct {
	state   func() governor.State
	regions func(pool string) map[string]float64
}

// Describe implements prometheus.Collector.
func (s *shares) Describe(ch chan<- *prometheus.Desc) {
	ch <- descGrant
	ch <- descRegion
	ch <- descDegraded
}

// Collect implements prometheus.Collector.
func (s *shares) Collect(ch chan<- prometheus.Metric) {
	for _, p := range s.state().Pools {
		name := p.Config.Name
		ch <- prometheus.MustNewConstMetric(descGrant, prometheus.GaugeValue, float64(p.Grant), name)
		for _, mode := range governor.Modes {
			on := 0.0
			if mode == p.Degraded {
				on = 1
			}
			ch <- prometheus.MustNewConstMetric(descDegraded, prometheus.GaugeValue, on, name, mode)
		}
		for region, part := range s.regions(name) {
			ch <- prometheus.MustNewConstMetric(descRegion, prometheus.GaugeValue, part, name, region)
		}
	}
}
