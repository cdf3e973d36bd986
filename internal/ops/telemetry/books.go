package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
)

// State copies a governor's books: governor.Governor.State.
type State func(only ...func(tenant string) bool) governor.State

// WatchStore registers the gauge of whether state_dir can be written and the shared store
// answers.
func (m *Metrics) WatchStore(up func() bool) {
	m.watch("store_up", "Whether state_dir can be written and the shared store answers.", func() float64 { return number(up()) })
}

// WatchDraining registers the gauge of whether the process is draining.
func (m *Metrics) WatchDraining(draining func() bool) {
	m.watch("draining", "Whether the process is stopping: no new calls should come, and it waits for its calls to end.", func() float64 { return number(draining()) })
}

// WatchBodies registers the gauge of the memory of request bodies.
func (m *Metrics) WatchBodies(bytes func() int64) {
	m.watch("body_memory_bytes", "Memory of request bodies that are read, wait, or are sent on.", func() float64 { return float64(bytes()) })
}

// WatchConnections registers the counts of clients' connections.
func (m *Metrics) WatchConnections(count func() (open, strangers int, closed int64)) {
	m.watch("connections", "Connections of clients.", func() float64 { open, _, _ := count(); return float64(open) })
	m.watch("connections_without_key", "Connections on which no valid key was shown.", func() float64 { _, strangers, _ := count(); return float64(strangers) })
	m.watchCount("connections_closed_total", "Connections that were closed for others: without a valid key, or idle.", func() float64 { _, _, closed := count(); return float64(closed) })
}

// WatchCertificate registers when the certificate of a listener expires.
func (m *Metrics) WatchCertificate(listener string, expires func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "tls_certificate_expires_timestamp_seconds", Help: "When the certificate of a listener expires, in seconds since 1970.",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(expires().Unix()) }))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// WatchDecisionLog registers the counter of lines that the decision log lacks.
func (m *Metrics) WatchDecisionLog(lost func() uint64) {
	m.watchCount("decision_log_lost_total", "Lines of the decision log that could not be written.", func() float64 { return float64(lost()) })
}

// Watch registers the gauges that are read from a governor's books, and the first policy in
// force.
func (m *Metrics) Watch(state State, policyHash string) {
	m.registry.MustRegister(scraped(func(ch chan<- prometheus.Metric) {
		crowd := m.series.crowd()
		s := state(crowd.has)
		collectBooks(&writer{ch: ch, crowd: crowd, others: map[otherSeries]float64{}}, &s)
	}))
	m.PolicyInForce(policyHash, time.Now())
}

var (
	descInflight    = desc("inflight_requests", "Calls in flight.", "tenant", "pool")
	descLimit       = desc("limit", "A limit, by axis; tenant is empty for a pool's own, pool for a tenant's over all pools.", "tenant", "pool", "axis")
	descUsed        = desc("used", "Usage that counts against a limit now, in all gateways that share it.", "tenant", "pool", "axis")
	descQueue       = desc("queue_depth", "Calls that wait; pool is empty for those over a limit of their own tenant.", "tenant", "pool")
	descPoolLimit   = desc("pool_tokens_limit", "Tokens a rolling minute of a pool, headroom taken off.", "pool")
	descPoolRolling = desc("pool_tokens_rolling", "Tokens of this gateway that count against the pool's limit now: of the last 60 s, and held.", "pool")
	descLeases      = desc("leases", "Leases by state.", "pool", "state")
	descTickets     = desc("tickets", "Kept places of refused calls: waiting until Retry-After, or due.", "pool", "state")
	descBudget      = desc("budget_used_ratio", "Used part of a budget, with tokens held: the fullest of a tenant's budgets of a period; tenant is empty for the fullest of the pools' budgets.", "tenant", "per")
	descConcurrency = desc("concurrency_limit", "Limit on concurrent calls in force.", "pool")
	descRate        = desc("pool_rate_ratio", "The part of a pool's rate in use: less than 1 while upstreams are missing or have asked for a pause, 0 while all have.", "pool")

	descBelow = desc("limit_below_configured", "By how much a pool's limit is lower than configured, because its upstreams declare a lower one or others use it.", "pool", "axis")

	leaseStates      = []string{"waiting", "running", "streaming"}
	noTenant, noPool = "", ""
)

// collectBooks writes what the governor's books have.
func collectBooks(w *writer, s *governor.State) {
	inflight := map[[2]string]int64{}
	spent := fullest{}
	for i := range s.Pools {
		p := &s.Pools[i]
		collectPool(w, p)
		collectShares(w, p)
		spent.add(noTenant, p.Budgets)
		for _, l := range p.Leases {
			if l.State != "waiting" {
				inflight[[2]string{l.Owner(), p.Config.Name}]++
			}
		}
	}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		name := t.Config.Name
		spent.add(w.crowd.name(name, noPool), t.Budgets)
		for _, l := range t.Limits {
			w.gauge(descLimit, float64(l.Limit), name, l.Pool, l.Axis)
			w.gauge(descUsed, float64(l.Used), name, l.Pool, l.Axis)
		}
		w.gauge(descQueue, float64(t.InLine), name, noPool)
		for pool, n := range t.Queued {
			w.gauge(descQueue, float64(n), name, pool)
			w.gauge(descInflight, float64(inflight[[2]string{name, pool}]), name, pool)
		}
	}
	for who, ratio := range spent {
		w.write(descBudget, prometheus.GaugeValue, ratio, who[0], who[1])
	}
	w.flush()
}

// fullest is the largest used part of any budget, by tenant and period.
type fullest map[[2]string]float64

func (f fullest) add(tenant string, budgets []governor.BudgetState) {
	for _, b := range budgets {
		if tenant != noTenant && b.Pool != "" {
			continue // part of a pool's budget, without a limit of its own
		}
		who := [2]string{tenant, b.Per.String()}
		f[who] = max(f[who], float64(b.Used)/float64(b.Limit))
	}
}

func collectPool(w *writer, p *governor.PoolState) {
	name := p.Config.Name
	gauge := func(d *prometheus.Desc, v float64, labels ...string) { w.write(d, prometheus.GaugeValue, v, labels...) }
	rate := float64(p.Part) / governor.Whole
	if !p.Held.IsZero() {
		rate = 0
	}
	gauge(descRate, rate, name)
	below := p.Below()
	for axis := range escrow.Slots {
		if a := p.Axes[axis]; a.On {
			gauge(descBelow, float64(below[axis]), name, axis.String())
			gauge(descLimit, float64(a.Limit), noTenant, name, axis.String())
			gauge(descUsed, float64(a.Used), noTenant, name, axis.String())
		}
	}
	if a := p.Axes[escrow.Tokens]; a.On {
		gauge(descPoolLimit, float64(a.Limit), name)
		gauge(descPoolRolling, float64(p.UsedHere[escrow.Tokens]), name)
	}
	if p.Slots > 0 {
		gauge(descConcurrency, float64(p.Slots), name)
		gauge(descLimit, float64(p.Slots), noTenant, name, escrow.Slots.String())
		gauge(descUsed, float64(p.SlotsUsed), noTenant, name, escrow.Slots.String())
	}
	if p.Config.TicketWait > 0 {
		gauge(descTickets, float64(p.Tickets-p.TicketsDue), name, "waiting")
		gauge(descTickets, float64(p.TicketsDue), name, "due")
	}
	states := map[string]int64{}
	for _, l := range p.Leases {
		states[l.State]++
	}
	for _, state := range leaseStates {
		gauge(descLeases, float64(states[state]), name, state)
	}
}
