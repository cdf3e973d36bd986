package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
)

// books reads the governor's books at scrape time.
type books struct{ state func() governor.State }

// Watch registers the gauges that are read from a governor's books, and the
// hash of the policy in force.
func (m *Metrics) Watch(state func() governor.State, policyHash string) {
	m.registry.MustRegister(&books{state})
	revision := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "policy_revision_info", Help: "The policy in force, by its hash.",
	}, []string{"hash"})
	revision.WithLabelValues(policyHash).Set(1)
	m.registry.MustRegister(revision)
}

var (
	descInflight     = desc("inflight_requests", "Calls that run.", "tenant", "pool")
	descLimit        = desc("limit", "A limit, by axis; pool is empty for a tenant's own, tenant for a pool's.", "tenant", "pool", "axis")
	descUsed         = desc("used", "What counts against a limit now.", "tenant", "pool", "axis")
	descQueue        = desc("queue_depth", "Calls that wait; pool is empty for those over a limit of their own tenant.", "tenant", "pool")
	descPoolLimit    = desc("pool_tokens_limit", "Tokens a rolling minute of a pool, headroom taken off.", "pool")
	descPoolRolling  = desc("pool_tokens_rolling", "Tokens that count against the pool's limit now: of the last 60 s, and held.", "pool")
	descLeases       = desc("leases", "Leases by state.", "pool", "state")
	descConcurrency  = desc("concurrency_limit", "Calls that may run at once.", "pool")
	leaseStates      = []string{"waiting", "running", "streaming"}
	allDescs         = []*prometheus.Desc{descInflight, descLimit, descUsed, descQueue, descPoolLimit, descPoolRolling, descLeases, descConcurrency}
	poolAxes         = []escrow.Axis{escrow.Tokens, escrow.Requests}
	noTenant, noPool = "", ""
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (b *books) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range allDescs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (b *books) Collect(ch chan<- prometheus.Metric) {
	s := b.state()
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	inflight := map[[2]string]int64{}
	for _, p := range s.Pools {
		collectPool(gauge, p)
		for _, l := range p.Leases {
			if l.State != "waiting" {
				inflight[[2]string{l.Tenant, p.Config.Name}]++
			}
		}
	}
	for _, t := range s.Tenants {
		name := t.Config.Name
		for _, l := range t.Limits {
			gauge(descLimit, l.Limit, name, noPool, l.Axis)
			gauge(descUsed, l.Used, name, noPool, l.Axis)
		}
		gauge(descQueue, int64(t.InLine), name, noPool)
		for pool, n := range t.Queued {
			gauge(descQueue, int64(n), name, pool)
			gauge(descInflight, inflight[[2]string{name, pool}], name, pool)
		}
	}
}

func collectPool(gauge func(*prometheus.Desc, int64, ...string), p governor.PoolState) {
	name := p.Config.Name
	for _, axis := range poolAxes {
		if a := p.Axes[axis]; a.On {
			gauge(descLimit, a.Limit, noTenant, name, axis.String())
			gauge(descUsed, a.Used, noTenant, name, axis.String())
		}
	}
	if a := p.Axes[escrow.Tokens]; a.On {
		gauge(descPoolLimit, a.Limit, name)
		gauge(descPoolRolling, a.Used, name)
	}
	if p.Slots > 0 {
		gauge(descConcurrency, p.Slots, name)
		gauge(descLimit, p.Slots, noTenant, name, escrow.Slots.String())
		gauge(descUsed, p.Running, noTenant, name, escrow.Slots.String())
	}
	states := map[string]int64{}
	for _, l := range p.Leases {
		states[l.State]++
	}
	for _, state := range leaseStates {
		gauge(descLeases, states[state], name, state)
	}
}
