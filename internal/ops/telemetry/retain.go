package telemetry

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// closed is the count of calls of deleted series, so low that it never reaches 0.
const closed = math.MinInt64 / 2

// Hold keeps the account's series until Release. It reports false if they are deleted,
// because the policy in force no longer has the tenant in that pool.
func (a *Account) Hold() bool { return a.calls.Add(1) > 0 }

// Release ends a Hold that was true. The last one deletes the series of a tenant that the
// policy no longer has.
func (a *Account) Release() {
	if a.calls.Add(-1) != 0 || !a.gone.Load() {
		return
	}
	m := a.metrics
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	m.deleteAccountLocked(a)
}

func (m *Metrics) knowPool(name string) {
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	m.series.pools[name] = true
}

// Retain keeps the series of the pools in the policy in force, and of the tenants that may
// use each. All others are deleted: at once, or with the last call that counts in them.
func (m *Metrics) Retain(pools []string, reaches map[string][]string) {
	l := &m.series
	l.mu.Lock()
	defer l.mu.Unlock()
	tenantsBefore := l.tenants
	poolsBefore := l.pools
	l.tenants = map[string]bool{}
	l.pools = map[string]bool{}
	for _, pool := range pools {
		l.pools[pool] = true
	}
	known := map[labels]bool{}
	for tenant, list := range reaches {
		l.tenants[tenant] = true
		for _, pool := range list {
			known[labels{tenant: tenant, pool: pool}] = true
		}
	}
	for w, a := range l.accounts {
		a.gone.Store(!known[labels{tenant: w.tenant, pool: w.pool}])
		m.deleteAccountLocked(a)
	}
	for tenant := range tenantsBefore {
		m.forgetTenantLocked(tenant)
	}
	m.forgetTenantLocked(Other)
	for pool := range poolsBefore {
		m.forgetPoolLocked(pool)
	}
}

// deleteAccountLocked deletes the series of an account without calls.
func (m *Metrics) deleteAccountLocked(a *Account) {
	if !a.gone.Load() || !a.calls.CompareAndSwap(0, closed) {
		return
	}
	w := a.children.labels
	l := &m.series
	delete(l.accounts, a.named)
	l.countLocked(a, -1)
	a.accounts--
	if a.accounts == 0 {
		delete(l.children, w)
		a.children.delete()
	}
	if l.users[labels{tier: w.tier, pool: w.pool}] == 0 {
		m.queueWait.DeleteLabelValues(w.tier, w.pool)
	}
	m.forgetTenantLocked(w.tenant)
	m.forgetPoolLocked(w.pool)
}

// forgetTenantLocked deletes the remaining series of a tenant.
func (m *Metrics) forgetTenantLocked(tenant string) {
	l := &m.series
	if l.tenants[tenant] || l.users[labels{tenant: tenant}] > 0 {
		return
	}
	for t := range l.turned[tenant] {
		m.requests.DeleteLabelValues(tenant, t.tier, t.pool, Refused, t.reason)
	}
	delete(l.turned, tenant)
}

// forgetPoolLocked deletes the remaining series of a pool.
func (m *Metrics) forgetPoolLocked(pool string) {
	l := &m.series
	if l.pools[pool] || l.users[labels{pool: pool}] > 0 {
		return
	}
	of := prometheus.Labels{"pool": pool}
	m.requests.DeletePartialMatch(of)
	m.firstToken.Delete(of)
	m.duration.Delete(of)
	m.estimateError.Delete(of)
	m.cancelled.Delete(of)
	m.unread.Delete(of)
	m.upstreamErrors.DeletePartialMatch(of)
}

// Turned counts a request that was turned away before it had both a tenant and a
// pool; unknown ones are empty. A tenant or pool that the policy no longer has is not
// counted, because its series would stay for ever.
func (m *Metrics) Turned(tenant, tier, pool, reason string) {
	if tenant != "" {
		l := &m.series
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.tenants[tenant] || pool != "" && !l.pools[pool] {
			return
		}
		one := labels{tenant: tenant}
		if l.others[one] > 0 && l.users[one] == 0 || l.turned[tenant] == nil && len(l.turned) >= l.most {
			tenant = Other
		}
		if l.turned[tenant] == nil {
			l.turned[tenant] = map[turned]struct{}{}
		}
		l.turned[tenant][turned{tier, pool, reason}] = struct{}{}
	}
	m.requests.WithLabelValues(tenant, tier, pool, Refused, reason).Inc()
}
