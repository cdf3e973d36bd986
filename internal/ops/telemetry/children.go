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
	models   *models
	shadowed *prometheus.CounterVec
}

// models are a tenant's tokens and money in a pool by model.
type models struct {
	tokens, usd, estimated *prometheus.CounterVec
	all                    *atomic.Int64 // models with series of their own, of all tenants

	mu   sync.Mutex
	made map[string]*ofModel
}

// ofModel are the series of one model.
type ofModel struct {
	held, input, output, refunded prometheus.Counter
	tokens                        *prometheus.CounterVec
}

// of finds or makes the series of a model, and the label that they have.
func (l *models) of(model string) (*ofModel, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.made[model]
	if m == nil && model != Other && l.all.Add(1) > MaxModels {
		l.all.Add(-1)
		model = Other
		m = l.made[model]
	}
	if m == nil {
		tokens := l.tokens.MustCurryWith(prometheus.Labels{"model": model})
		m = &ofModel{
			held: tokens.WithLabelValues(held), input: tokens.WithLabelValues(input), output: tokens.WithLabelValues(output),
			refunded: tokens.WithLabelValues(refunded), tokens: tokens,
		}
		l.made[model] = m
	}
	return m, model
}

// delete deletes all of its series.
func (l *models) delete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for model, m := range l.made {
		for _, kind := range kinds {
			m.tokens.DeleteLabelValues(kind)
		}
		l.usd.DeleteLabelValues(model)
		l.estimated.DeleteLabelValues(model)
		if model != Other {
			l.all.Add(-1)
		}
	}
	clear(l.made)
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
	c.models.delete()
	for r := range governor.NumReasons {
		c.shadowed.DeleteLabelValues(governor.Reason(r).String())
	}
	for _, o := range c.outcomes.all() {
		c.outcomes.vec.DeleteLabelValues(o.outcome, o.reason)
	}
}

// Admitted counts the tokens that a call of a model holds and its wait; trace is for Observe.
func (a *Account) Admitted(model string, tokens int64, waited time.Duration, trace string) {
	of, _ := a.models.of(model)
	of.held.Add(float64(tokens))
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

// Taken is what a call has taken, or a part of it.
type Taken struct {
	Calls    int64  // 1 at the end of a call, else 0
	Model    string // one of few names: it becomes a label
	Upstream string
	Usage    governor.Usage
	MicroUSD int64
	// Estimated says that the upstream did not report the usage.
	Estimated bool
}

// Ended counts the end of an admitted call: its outcome, the reason if it
// failed, what it has taken since it was counted last, and the tokens held that it gave back.
func (a *Account) Ended(outcome, reason string, t Taken, back int64) {
	if outcome == OK && reason == "" {
		a.ok.Inc()
	} else {
		a.outcomes.of(outcome, reason).Inc()
	}
	if outcome == Failed {
		a.failed.Add(1)
	}
	a.Took(t)
	if back > 0 {
		of, _ := a.models.of(t.Model)
		of.refunded.Add(float64(back))
	}
}

// Took counts what a call has taken since it was counted last, here and in the account of spend.
func (a *Account) Took(t Taken) {
	u := &t.Usage
	of, model := a.models.of(t.Model)
	of.input.Add(float64(u.Input))
	of.output.Add(float64(u.Output))
	if u.CachedInput > 0 {
		of.tokens.WithLabelValues(cachedInput).Add(float64(u.CachedInput))
	}
	if u.Reasoning > 0 {
		of.tokens.WithLabelValues(reasoning).Add(float64(u.Reasoning))
	}
	if t.MicroUSD > 0 {
		a.models.usd.WithLabelValues(model).Add(governor.UnitMicroUSD.Amount(t.MicroUSD))
		if t.Estimated {
			a.models.estimated.WithLabelValues(model).Add(governor.UnitMicroUSD.Amount(t.MicroUSD))
		}
	}
	if spent := a.metrics.spent; spent != nil {
		spent(a.named.tenant, t)
	}
}
