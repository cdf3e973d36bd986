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

// Pool is the children of one pool.
type Pool struct {
	FirstToken, Duration, EstimateError prometheus.Observer
	Cancelled                           prometheus.Counter
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
		errors:        m.upstreamErrors.MustCurryWith(prometheus.Labels{"pool": name}),
	}
}

// UpstreamError counts a failure of the upstream by class: connect, timeout,
// broken, truncated, event, idle, or its status.
func (p *Pool) UpstreamError(class string) { p.errors.WithLabelValues(class).Inc() }

// Account is what one tenant counts in of one pool.
type Account struct {
	*children

	metrics *Metrics
	who     who          // as the policy has it
	calls   atomic.Int64 // that count here; see closed
	gone    atomic.Bool  // the policy does not know the tenant in this pool
	shadows atomic.Int64 // counted in shadowed
	refused atomic.Int64
	failed  atomic.Int64
}

// children are the series of one tenant in one pool, or of all those together that have
// none of their own: those that each request touches are resolved ahead, the rare ones
// when they happen.
type children struct {
	QueueWait prometheus.Observer

	who      who // as they are labelled
	accounts int // that count in them; guarded by life.mu

	ok       prometheus.Counter
	outcomes *outcomes
	tokens   *prometheus.CounterVec
	shadowed *prometheus.CounterVec

	held, input, output, refunded prometheus.Counter
}

// outcomes are a tenant's requests in a pool by what became of them.
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

// all are those that there is a series of.
func (o *outcomes) all() []outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.made))
}

// Account finds or resolves the children of a tenant in a pool, and keeps them until
// Retain leaves them out. Who counts in them holds them.
func (m *Metrics) Account(tenant, tier, pool string) *Account {
	l := &m.life
	w := who{tenant, tier, pool}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[w]; a != nil {
		a.gone.Store(false)
		return a
	}
	label := l.labelLocked(w)
	c := l.children[label]
	if c == nil {
		c = m.newChildren(label)
		l.children[label] = c
	}
	c.accounts++
	a := &Account{children: c, metrics: m, who: w}
	l.accounts[w] = a
	l.countLocked(a, 1)
	return a
}

func (m *Metrics) newChildren(w who) *children {
	of := prometheus.Labels{"tenant": w.tenant, "tier": w.tier, "pool": w.pool}
	tokens := m.tokens.MustCurryWith(of)
	c := &children{
		QueueWait: m.queueWait.WithLabelValues(w.tier, w.pool),
		who:       w,
		outcomes:  &outcomes{vec: m.requests.MustCurryWith(of), made: map[outcome]prometheus.Counter{}},
		tokens:    tokens,
		shadowed:  m.shadowRefused.MustCurryWith(of),
		held:      tokens.WithLabelValues(held),
		input:     tokens.WithLabelValues(input),
		output:    tokens.WithLabelValues(output),
		refunded:  tokens.WithLabelValues(refunded),
	}
	c.ok = c.outcomes.of(OK, "")
	return c
}

// delete takes all of its series away.
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

// Admitted counts what a call holds and how long it waited; trace is for Observe.
func (a *Account) Admitted(tokens int64, waited time.Duration, trace string) {
	a.held.Add(float64(tokens))
	Observe(a.QueueWait, waited, trace)
}

// Observe counts a duration. With a trace, which is one that somebody can look at, it
// becomes the exemplar of its bucket.
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

// Refusals is how many calls were refused by a limit.
func (a *Account) Refusals() int64 { return a.refused.Load() }

// Failures is how many admitted calls failed.
func (a *Account) Failures() int64 { return a.failed.Load() }

// ShadowRefused counts a call that went although it would have been refused.
func (a *Account) ShadowRefused(r governor.Reason) {
	a.shadows.Add(1)
	a.shadowed.WithLabelValues(r.String()).Inc()
}

// ShadowRefusals is how many calls went although they would have been refused.
func (a *Account) ShadowRefusals() int64 { return a.shadows.Load() }

// Ended counts the end of an admitted call: its outcome, a reason when it
// failed, what it took, and what was given back of what it held.
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

// Took counts what a call took, or has taken since it was told last.
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
