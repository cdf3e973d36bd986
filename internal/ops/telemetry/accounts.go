package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Account finds or resolves the children of a tenant in a pool, and keeps them until
// Retain leaves them out. Calls hold them while they count.
func (m *Metrics) Account(tenant, tier, pool string) *Account {
	l := &m.series
	w := labels{tenant, tier, pool}
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
	a := &Account{children: c, metrics: m, named: w}
	l.accounts[w] = a
	l.countLocked(a, 1)
	return a
}

func (m *Metrics) newChildren(w labels) *children {
	of := prometheus.Labels{"tenant": w.tenant, "tier": w.tier, "pool": w.pool}
	tokens := m.tokens.MustCurryWith(of)
	c := &children{
		QueueWait: m.queueWait.WithLabelValues(w.tier, w.pool),
		labels:    w,
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
