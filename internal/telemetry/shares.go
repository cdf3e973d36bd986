package telemetry

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
)

var (
	descEntitled  = desc("share_entitled_ratio", "What a tenant was entitled to in the last 60 s, as a part of the pool: the fluid weighted max-min of what all asked for.", "tenant", "pool")
	descReceived  = desc("share_received_ratio", "What a tenant received in the last 60 s, as a part of the pool.", "tenant", "pool")
	descJain      = desc("fairness_jain_index", "Jain's index over received / entitled of the last 60 s: 1 if all had the same part of what they were entitled to.", "pool")
	descDeviation = desc("fairness_max_deviation_ratio", "The largest distance of received / entitled from 1 in the last 60 s, of any tenant.", "pool")
	descUnused    = desc("unused_while_waiting_tokens_total", "Tokens that the pool could have handed out, and did not, while calls waited for them.", "pool")
	descBorrowed  = desc("borrowed_tokens_total", "Tokens that a tenant had beyond what its weight alone entitles it to, which others did not ask for.", "tenant", "pool")
	descLent      = desc("lent_tokens_total", "Tokens that a tenant's weight alone entitles it to, which it did not ask for and others had.", "tenant", "pool")
	descDebt      = desc("debt_tokens", "Tokens that a tenant has had before its turn, and others are served for first.", "tenant", "pool")
)

func describeShares(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descEntitled, descReceived, descJain, descDeviation, descUnused, descBorrowed, descLent, descDebt} {
		ch <- d
	}
}

// collectShares writes who had what of a pool. What is told in tokens is not there for a
// pool without a limit of them.
func collectShares(w *writer, p *governor.PoolState) {
	pool := p.Config.Name
	tokens := p.Axes[escrow.Tokens].On
	w.write(descJain, prometheus.GaugeValue, p.Jain, pool)
	w.write(descDeviation, prometheus.GaugeValue, p.Deviation, pool)
	if tokens {
		w.write(descUnused, prometheus.CounterValue, float64(p.Unused), pool)
	}
	for i := range p.Shares {
		s := &p.Shares[i]
		w.gauge(descEntitled, share(s.Entitled), s.Tenant, pool)
		w.gauge(descReceived, share(s.Received), s.Tenant, pool)
		if tokens {
			w.counter(descBorrowed, s.Borrowed, s.Tenant, pool)
			w.counter(descLent, s.Lent, s.Tenant, pool)
			w.gauge(descDebt, float64(s.Debt), s.Tenant, pool)
		}
	}
}

// share is a share of a pool without the rounding errors of sums that should be 0, which graphs
// would show as 9.84e-17 %.
func share(of float64) float64 {
	if math.Abs(of) < 1e-9 {
		return 0
	}
	return of
}
