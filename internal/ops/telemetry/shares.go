package telemetry

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
)

var (
	descEntitled  = desc("share_entitled_ratio", "Part of the pool that a tenant was entitled to in the last 60 s: the fluid weighted max-min of the demand of all.", "tenant", "pool")
	descReceived  = desc("share_received_ratio", "Part of the pool that a tenant received in the last 60 s.", "tenant", "pool")
	descJain      = desc("fairness_jain_index", "Jain's index over received / entitled of the last 60 s: 1 if all received the same part of their entitlement.", "pool")
	descDeviation = desc("fairness_max_deviation_ratio", "The largest distance of received / entitled from 1 in the last 60 s, of any tenant.", "pool")
	descUnused    = desc("unused_while_waiting_tokens_total", "Tokens that the pool could have granted, and did not, while calls waited for them.", "pool")
	descBorrowed  = desc("borrowed_tokens_total", "Tokens that a tenant received beyond the entitlement of its weight, because others did not use theirs.", "tenant", "pool")
	descLent      = desc("lent_tokens_total", "Tokens of the entitlement of a tenant's weight that it did not use and others received.", "tenant", "pool")
	descKeptOut   = desc("queue_kept_out", "Calls that a rule of the pool's slots keeps waiting, by the rule's key in its concurrency. They count in no entitlement.", "tenant", "pool", "rule")
	descDebt      = desc("debt_tokens", "Tokens that a tenant received before its turn; others are served first until they are made up.", "tenant", "pool")
)

// collectShares writes the tenants' shares of a pool. Figures in tokens are left out for a
// pool without a limit on tokens.
func collectShares(w *writer, p *governor.PoolState) {
	pool := p.Config.Name
	tokens := p.Axes[escrow.Tokens].On || p.Axes[escrow.Input].On || p.Axes[escrow.Output].On
	w.write(descJain, prometheus.GaugeValue, p.Jain, pool)
	w.write(descDeviation, prometheus.GaugeValue, p.Deviation, pool)
	if tokens {
		w.write(descUnused, prometheus.CounterValue, float64(p.Unused), pool)
	}
	rules := p.Config.SlotRules()
	for i := range p.Shares {
		s := &p.Shares[i]
		w.gauge(descEntitled, share(s.Entitled), s.Tenant, pool)
		w.gauge(descReceived, share(s.Received), s.Tenant, pool)
		if tokens {
			w.counter(descBorrowed, s.Borrowed, s.Tenant, pool)
			w.counter(descLent, s.Lent, s.Tenant, pool)
			w.gauge(descDebt, float64(s.Debt), s.Tenant, pool)
		}
		collectKeptOut(w, p.Config.Name, rules, s)
	}
}

// collectKeptOut writes how many calls of a tenant each rule of the pool's slots keeps waiting.
func collectKeptOut(w *writer, pool string, rules []string, s *governor.TenantShare) {
	for _, rule := range rules {
		calls := 0
		if s.KeptOutBy == rule {
			calls = s.KeptOut
		}
		w.gauge(descKeptOut, float64(calls), s.Tenant, pool, rule)
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
