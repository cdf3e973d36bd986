package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/governor"
)

// Pool is the children of one pool.
type Pool struct {
	FirstToken, Duration, EstimateError prometheus.Observer
	Cancelled                           prometheus.Counter
	errors                              *prometheus.CounterVec
}

// Pool resolves a pool's children.
func (m *Metrics) Pool(name string) *Pool {
	return &Pool{
		FirstToken:    m.firstToken.WithLabelValues(name),
		Duration:      m.duration.WithLabelValues(name),
		EstimateError: m.estimateError.WithLabelValues(name),
		Cancelled:     m.cancelled.WithLabelValues(name),
		errors:        m.upstreamErrors.MustCurryWith(prometheus.Labels{"pool": name}),
	}
}

// UpstreamError counts a failure of the upstream by class: connect, timeout,
// broken, truncated, event, idle, draining, or its status.
func (p *Pool) UpstreamError(class string) { p.errors.WithLabelValues(class).Inc() }

// Account is the children of one tenant in one pool: those that each request
// touches are resolved ahead, the rare ones when they happen.
type Account struct {
	QueueWait prometheus.Observer

	ok       prometheus.Counter
	outcomes *prometheus.CounterVec // the rare ones, resolved when they happen
	tokens   *prometheus.CounterVec

	held, input, output, refunded prometheus.Counter
}

// Account resolves the children of a tenant in a pool.
func (m *Metrics) Account(tenant, tier, pool string) *Account {
	who := prometheus.Labels{"tenant": tenant, "tier": tier, "pool": pool}
	outcomes, tokens := m.requests.MustCurryWith(who), m.tokens.MustCurryWith(who)
	return &Account{
		QueueWait: m.queueWait.WithLabelValues(tier, pool),
		outcomes:  outcomes,
		tokens:    tokens,
		ok:        outcomes.WithLabelValues(OK, ""),
		held:      tokens.WithLabelValues(held),
		input:     tokens.WithLabelValues(input),
		output:    tokens.WithLabelValues(output),
		refunded:  tokens.WithLabelValues(refunded),
	}
}

// Admitted counts what a call holds and how long it waited.
func (a *Account) Admitted(tokens int64, waited time.Duration) {
	a.held.Add(float64(tokens))
	a.QueueWait.Observe(waited.Seconds())
}

// Refused counts a refusal by the governor.
func (a *Account) Refused(r governor.Reason) {
	if r == governor.ReasonCancelled {
		a.outcomes.WithLabelValues(Cancelled, "").Inc()
		return
	}
	a.outcomes.WithLabelValues(Refused, r.String()).Inc()
}

// Ended counts the end of an admitted call: its outcome, a reason when it
// failed, what it took, and what was given back of what it held.
func (a *Account) Ended(outcome, reason string, u governor.Usage, heldTokens int64) {
	if outcome == OK && reason == "" {
		a.ok.Inc()
	} else {
		a.outcomes.WithLabelValues(outcome, reason).Inc()
	}
	a.input.Add(float64(u.Input))
	a.output.Add(float64(u.Output))
	if u.CachedInput > 0 {
		a.tokens.WithLabelValues(cachedInput).Add(float64(u.CachedInput))
	}
	if u.Reasoning > 0 {
		a.tokens.WithLabelValues(reasoning).Add(float64(u.Reasoning))
	}
	if back := heldTokens - u.Input - u.Output; back > 0 {
		a.refunded.Add(float64(back))
	}
}
