package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// seriesTable has the series of tenants. Those of a tenant in a pool last as long as the
// policy has it there, and after that until the last of its calls has ended.
type seriesTable struct {
	models atomic.Int64 // that have series of their own; see MaxModels

	mu       sync.Mutex
	most     int                     // see Bound
	idle     time.Duration           // see Bound
	reach    Reach                   // of the policy; nil before the first
	pools    map[string]bool         // of the policy
	accounts map[labels]*Account     // by their names in the policy
	children map[labels]*children    // by their labels
	users    map[labels]int          // accounts with a label: a tenant, a pool, both, and a tier in a pool
	others   map[labels]int          // a tenant's accounts that count as Other, in all and in a pool
	turned   map[string]turnedSeries // of requests that were turned away, by tenant
}

// turnedSeries are those of a tenant, and when the last such request came, in seconds.
type turnedSeries struct {
	of   map[turned]struct{}
	last int64
}

// reaches is what the policy says; before the first, everybody may come.
func (l *seriesTable) reaches(tenant, pool string) bool {
	return l.reach == nil || l.reach(tenant, pool)
}

func newSeriesTable() seriesTable {
	return seriesTable{
		most: MaxAccounts, idle: time.Hour, pools: map[string]bool{}, accounts: map[labels]*Account{}, children: map[labels]*children{},
		users: map[labels]int{}, others: map[labels]int{}, turned: map[string]turnedSeries{},
	}
}

// turned has the labels of a tenant's requests that were turned away.
type turned struct{ tier, pool, reason string }

// labelLocked is the label of a tenant's series in a pool. Tenants that have series keep
// them.
func (l *seriesTable) labelLocked(w labels) labels {
	if l.children[w] == nil && len(l.children) >= l.most || w.tenant == Other {
		w.tenant = Other
	}
	return w
}

// countLocked adds an account to those of its label, or removes it.
func (l *seriesTable) countLocked(a *Account, by int) {
	add := func(counts map[labels]int, w labels) {
		counts[w] += by
		if counts[w] == 0 {
			delete(counts, w)
		}
	}
	for _, shared := range a.children.labels.shared() {
		add(l.users, shared)
	}
	if a.children.labels != a.named {
		add(l.others, labels{tenant: a.named.tenant})
		add(l.others, labels{tenant: a.named.tenant, pool: a.named.pool})
	}
}

func (l *seriesTable) crowd() crowd {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := crowd{}
	for w := range l.others {
		c[w] = false
	}
	for w := range l.users {
		if w.tenant != "" {
			c[w] = true
		}
	}
	for w, own := range maps.Clone(c) { // what a team takes counts above it
		for at := strings.LastIndexByte(w.tenant, '/'); at > 0; at = strings.LastIndexByte(w.tenant, '/') {
			w.tenant = w.tenant[:at]
			c[w] = c[w] || own
		}
	}
	return c
}

// crowd are the tenants that have called lately: in a pool or, if that is empty, in any. Those that are false have no series of their own.
type crowd map[labels]bool

// has reports whether a tenant, or a team of it, has called lately.
func (c crowd) has(tenant string) bool {
	_, has := c[labels{tenant: tenant}]
	return has
}

// name is a tenant's label in gauges of a pool or, if that is empty, of all pools.
func (c crowd) name(tenant, pool string) string {
	if own, called := c[labels{tenant: tenant, pool: pool}]; called && !own {
		return Other
	}
	return tenant
}
