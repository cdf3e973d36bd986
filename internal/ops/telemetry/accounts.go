package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Account finds or makes the account of a tenant in a pool. Its series are there until no call has come for the time of Bound, and again
// with the next call. Calls hold it while they count.
func (m *Metrics) Account(tenant, tier, pool string) *Account {
	l := &m.series
	w := labels{tenant, tier, pool}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[w]
	if a == nil {
		a = &Account{metrics: m, named: w}
		a.used.Store(time.Now().Unix())
		l.accounts[w] = a
		m.showLocked(a)
	}
	a.gone.Store(!l.reaches(tenant, pool))
	return a
}

// showLocked gives an account its series.
func (m *Metrics) showLocked(a *Account) {
	l := &m.series
	label := l.labelLocked(a.named)
	c := l.children[label]
	if c == nil {
		c = m.newChildren(label)
		l.children[label] = c
	}
	c.accounts++
	a.children = c
	a.quiet = false
	l.countLocked(a, 1)
}

func (m *Metrics) newChildren(w labels) *children {
	of := prometheus.Labels{"tenant": w.tenant, "tier": w.tier, "pool": w.pool}
	c := &children{
		QueueWait: m.queueWait.WithLabelValues(w.tier, w.pool),
		labels:    w,
		outcomes:  &outcomes{vec: m.requests.MustCurryWith(of), made: map[outcome]prometheus.Counter{}},
		models: &models{
			tokens: m.tokens.MustCurryWith(of), usd: m.usd.MustCurryWith(of), estimated: m.estimatedUSD.MustCurryWith(of),
			all: &m.series.models, made: map[string]*ofModel{},
		},
		shadowed: m.shadowRefused.MustCurryWith(of),
	}
	c.ok = c.outcomes.of(OK, "")
	return c
}
