package telemetry

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
)

// sharing has the metrics of the shared store.
type sharing struct {
	trips   prometheus.Counter
	latency *prometheus.HistogramVec
}

func newSharing() sharing {
	return sharing{
		trips: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "store_round_trips_total", Help: "Round trips to the shared store. Calls wait for those of op ask; see llmgov_store_latency_seconds.",
		}),
		latency: histogram("store_latency_seconds", "Time of the store to answer, or to fail.", []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}, "op"),
	}
}

// StoreAsked counts one round trip to the shared store.
func (m *Metrics) StoreAsked(op string, took time.Duration) {
	m.sharing.trips.Inc()
	m.sharing.latency.WithLabelValues(op).Observe(took.Seconds())
}

// WatchSharing registers the metrics of shared limits. regions returns each region's part of a
// pool's usage in the last minute, and unreadable how many accounts of limits the store cannot read.
func (m *Metrics) WatchSharing(state State, regions func(pool string) map[string]float64, unreadable func() int) {
	m.watch("store_unreadable_accounts", "Accounts of limits in the store that cannot be read. Nothing is granted of them.", func() float64 { return float64(unreadable()) })
	m.watchSharing(state, func(p *governor.PoolState) escrow.Cost { return p.Grant }, func(p *governor.PoolState) map[string]float64 { return regions(p.Config.Name) })
}

// WatchSingle registers the same for a single gateway: it may grant the whole rest of a pool's
// minute, and all usage is in its region.
func (m *Metrics) WatchSingle(state State, region string) {
	m.watchSharing(state, func(p *governor.PoolState) (c escrow.Cost) {
		for k, a := range p.Axes {
			c[k] = max(0, a.Limit-a.Used)
		}
		return c
	}, func(p *governor.PoolState) map[string]float64 {
		used := slices.ContainsFunc(p.Axes[:], func(a escrow.AxisState) bool { return a.Used > 0 })
		return map[string]float64{region: number(used)}
	})
}

var (
	descGrant    = desc("grant_tokens", "Tokens that may still be granted to calls: by the grant in force, until it expires; in a single gateway the rest of the minute.", "pool")
	descRegion   = desc("region_share_ratio", "A region's part of the usage of a pool in the last minute.", "pool", "region")
	descDegraded = desc("degraded", "Whether a failure mode is in force in a pool: 1 of closed, open, local and learning, or none.", "pool", "mode")
)

// tokensOf are those of an amount that count in the pool: of all kinds or, without a limit on these, input and output together.
func tokensOf(p *governor.PoolState, c escrow.Cost) int64 {
	if p.Axes[escrow.Tokens].On {
		return c[escrow.Tokens]
	}
	return c[escrow.Input] + c[escrow.Output]
}

// watchSharing registers what is read of the state of sharing, without the store: what may still be granted of each pool, and its use by region.
func (m *Metrics) watchSharing(state State, grant func(*governor.PoolState) escrow.Cost, used func(*governor.PoolState) map[string]float64) {
	m.registry.MustRegister(m.sharing.trips, m.sharing.latency, scraped(func(ch chan<- prometheus.Metric) {
		pools := state(func(string) bool { return false }).Pools
		for i := range pools {
			p := &pools[i]
			name := p.Config.Name
			ch <- prometheus.MustNewConstMetric(descGrant, prometheus.GaugeValue, float64(tokensOf(p, grant(p))), name)
			for _, mode := range governor.Modes {
				ch <- prometheus.MustNewConstMetric(descDegraded, prometheus.GaugeValue, number(mode == p.Degraded), name, mode)
			}
			for region, part := range used(p) {
				ch <- prometheus.MustNewConstMetric(descRegion, prometheus.GaugeValue, part, name, region)
			}
		}
	}))
}
