package telemetry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/governor"
)

// Pool has the children of one pool.
type Pool struct {
	FirstToken, Duration, EstimateError prometheus.Observer
	Cancelled, Unread                   prometheus.Counter
	errors                              *prometheus.CounterVec
}

// Pool resolves a pool's children. They stay until Retain leaves the pool out.
func (m *Metrics) Pool(name string) *Pool {
	m.knowPool(name)
	return &Pool{
		FirstToken:    m.firstToken.WithLabelValues(name),
		Duration:      m.duration.WithLabelValues(name),
		EstimateError: m.estimateError.WithLabelValues(name),
		Cancelled:     m.cancelled.WithLabelValues(name),
		Unread:        m.unread.WithLabelValues(name),
		errors:        m.upstreamErrors.MustCurryWith(prometheus.Labels{"pool": name}),
	}
}

// UpstreamError counts a failure of the upstream by class: connect, timeout,
// broken, truncated, event, idle, or its status.
func (p *Pool) UpstreamError(class string) { p.errors.WithLabelValues(class).Inc() }

// Account has the counters of one tenant in one pool.
type Account struct {
	*children

	metrics *Metrics
	named   labels       // as in the policy
	calls   atomic.Int64 // in flight; see closed
	used    atomic.Int64 // when the last call ended, in seconds
	quiet   bool         // it has no series; guarded by seriesTable.mu
	gone    atomic.Bool  // removed from the policy
	shadows atomic.Int64 // counted in shadowed
	refused atomic.Int64
	failed  atomic.Int64
}

// children are the series of one tenant in one pool, or of all tenants together that have
// none of their own. Series that each request touches are resolved ahead, rare ones when
// they are needed.
type children struct {
	QueueWait prometheus.Observer

	labels   labels // of the series
	accounts int    // that use them; guarded by seriesTable.mu

	ok       prometheus.Counter
	outcomes *outcomes
	tokens   *prometheus.CounterVec
	shadowed *prometheus.CounterVec

	held, input, output, refunded prometheus.Counter
}

// outcomes are a tenant's requests in a pool by outcome.
type outcomes struct {
	vec *prometheus.CounterVec

	mu   sync.Mutex
	made map[outcome]prometheus.Counter
}

type outcome struct{ outcome, reason string }

func (o *outcomes) of(what, reason string) prometheus.Counter {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.made[outcome{what, reason}]
	if c == nil {
		c = o.vec.WithLabelValues(what, reason)
		o.made[outcome{what, reason}] = c
	}
	return c
}

// all are the outcomes that have a series.
func (o *outcomes) all() []outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.made))
}

// delete deletes all of its series.
func (c *children) delete() {
	for _, kind := range kinds {
		c.tokens.DeleteLabelValues(kind)
	}
	for r := range governor.NumReasons {
		c.shadowed.DeleteLabelValues(governor.Reason(r).String())
	}
	for _, o := range c.outcomes.all() {
		c.outcomes.vec.DeleteLabelValues(o.outcome, o.reason)
	}
}

// Admitted counts the tokens that a call holds and its wait; trace is for Observe.
func (a *Account) Admitted(tokens int64, waited time.Duration, trace string) {
	a.held.Add(float64(tokens))
	Observe(a.QueueWait, waited, trace)
}

// Observe counts a duration. With a trace, which is sampled, it becomes the exemplar of its
// bucket.
func Observe(o prometheus.Observer, d time.Duration, trace string) {
	if trace == "" {
		o.Observe(d.Seconds())
		return
	}
	o.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": trace})
}

// Refused counts a refusal by the governor.
func (a *Account) Refused(r governor.Reason) {
	if r == governor.ReasonCancelled {
		a.outcomes.of(Cancelled, "").Inc()
		return
	}
	a.refused.Add(1)
	a.outcomes.of(Refused, r.String()).Inc()
}

// Refusals is the number of calls that a limit refused.
func (a *Account) Refusals() int64 { return a.refused.Load() }

// Failures is the number of admitted calls that failed.
func (a *Account) Failures() int64 { return a.failed.Load() }

// ShadowRefused counts a call that was admitted only because of shadow.
func (a *Account) ShadowRefused(r governor.Reason) {
	a.shadows.Add(1)
	a.shadowed.WithLabelValues(r.String()).Inc()
}

// ShadowRefusals is the number of calls that were admitted only because of shadow.
func (a *Account) ShadowRefusals() int64 { return a.shadows.Load() }

// Ended counts the end of an admitted call: its outcome, the reason if it
// failed, its usage, and the tokens held that it gave back.
func (a *Account) Ended(outcome, reason string, u governor.Usage, heldTokens int64) {
	if outcome == OK && reason == "" {
		a.ok.Inc()
	} else {
		a.outcomes.of(outcome, reason).Inc()
	}
	if outcome == Failed {
		a.failed.Add(1)
	}
	a.Took(u)
	if back := heldTokens - u.Input - u.Output; back > 0 {
		a.refunded.Add(float64(back))
	}
}

// Took counts the usage of a call, or its usage since the previous count.
func (a *Account) Took(u governor.Usage) {
	a.input.Add(float64(u.Input))
	a.output.Add(float64(u.Output))
	if u.CachedInput > 0 {
		a.tokens.WithLabelValues(cachedInput).Add(float64(u.CachedInput))
	}
	if u.Reasoning > 0 {
		a.tokens.WithLabelValues(reasoning).Add(float64(u.Reasoning))
	}
}
