package telemetry

import "sync"

// seriesTable has the series of tenants. Those of a tenant in a pool last as long as the
// policy has it there, and after that until the last of its calls has ended.
type seriesTable struct {
	mu             sync.Mutex
	most           int                            // see MaxAccounts
	tenants, pools map[string]bool                // of the policy
	accounts       map[labels]*Account            // by their names in the policy
	children       map[labels]*children           // by their labels
	users          map[labels]int                 // accounts with a label: a tenant, a pool, both, and a tier in a pool
	others         map[labels]int                 // a tenant's accounts that count as Other, in all and in a pool
	turned         map[string]map[turned]struct{} // series of requests that were turned away, by tenant
}

func newSeriesTable() seriesTable {
	return seriesTable{
		most: MaxAccounts, pools: map[string]bool{}, accounts: map[labels]*Account{}, children: map[labels]*children{},
		users: map[labels]int{}, others: map[labels]int{}, turned: map[string]map[turned]struct{}{},
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
		if l.users[w] == 0 {
			c[w] = true
		}
	}
	return c
}

// crowd are the tenants without series of their own: in a pool or, if that is empty, in any.
type crowd map[labels]bool

// name is a tenant's label in gauges of a pool or, if that is empty, of all pools.
func (c crowd) name(tenant, pool string) string {
	if c[labels{tenant: tenant, pool: pool}] {
		return Other
	}
	return tenant
}
