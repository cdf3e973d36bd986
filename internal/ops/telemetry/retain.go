package telemetry

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// closed is the count of calls of an account without series, so low that it never reaches 0.
const closed = math.MinInt64 / 2

// Hold keeps the account's series until Release. It reports false if they are deleted,
// because the policy in force no longer has the tenant in that pool.
func (a *Account) Hold() bool { return a.calls.Add(1) > 0 || a.wake() }

// wake is Hold of an account that has no series, or had none just now.
func (a *Account) wake() bool {
	m := a.metrics
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	switch {
	case a.gone.Load():
		return false
	case a.quiet:
		m.showLocked(a)
		a.calls.Store(1)
	default:
		a.calls.Add(1)
	}
	return true
}

// Release ends a Hold that was true. The last one deletes the series of a tenant that the
// policy no longer has.
func (a *Account) Release() {
	a.used.Store(time.Now().Unix())
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

// Reach reports whether a policy has a tenant and, with the name of a pool, whether it may use that.
type Reach func(tenant, pool string) bool

// Expect has calls come of those whom another policy knows too.
func (m *Metrics) Expect(next Reach) {
	l := &m.series
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.reach
	l.reach = func(tenant, pool string) bool { return before == nil || before(tenant, pool) || next(tenant, pool) }
}

// Retain keeps the series of the pools in the policy in force, and of the tenants that may
// use each. All others are deleted: at once, or with the last call that counts in them.
func (m *Metrics) Retain(pools []string, reach Reach) {
	l := &m.series
	l.mu.Lock()
	defer l.mu.Unlock()
	poolsBefore := l.pools
	l.pools = map[string]bool{}
	for _, pool := range pools {
		l.pools[pool] = true
	}
	l.reach = reach
	for w, a := range l.accounts {
		a.gone.Store(!reach(w.tenant, w.pool))
		m.deleteAccountLocked(a)
	}
	for tenant := range l.turned {
		m.forgetTenantLocked(tenant)
	}
	for pool := range poolsBefore {
		m.forgetPoolLocked(pool)
	}
}

// Bound says of how many tenants there are series, counted once for each pool, and for how long after their last calls.
func (m *Metrics) Bound(most int, idle time.Duration) {
	l := &m.series
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = most
	l.idle = idle
}

// hush deletes the series of tenants that have not called for long.
func (m *Metrics) hush(now time.Time) {
	l := &m.series
	l.mu.Lock()
	defer l.mu.Unlock()
	since := now.Add(-l.idle).Unix()
	for _, a := range l.accounts {
		if !a.quiet && a.used.Load() < since {
			m.quietLocked(a)
		}
	}
	for tenant, t := range l.turned {
		if t.last < since {
			m.forgetTurnedLocked(tenant)
		}
	}
}

// deleteAccountLocked deletes an account without calls of a tenant that is gone.
func (m *Metrics) deleteAccountLocked(a *Account) {
	if !a.gone.Load() || m.series.accounts[a.named] != a || !a.quiet && !m.quietLocked(a) {
		return
	}
	delete(m.series.accounts, a.named)
	m.forgetTenantLocked(a.named.tenant)
	m.forgetPoolLocked(a.named.pool)
}

// quietLocked deletes the series of an account, unless it has calls.
func (m *Metrics) quietLocked(a *Account) bool {
	if !a.calls.CompareAndSwap(0, closed) {
		return false
	}
	a.quiet = true
	w := a.children.labels
	l := &m.series
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
	return true
}

// forgetTenantLocked deletes the remaining series of a tenant.
func (m *Metrics) forgetTenantLocked(tenant string) {
	l := &m.series
	if l.reaches(tenant, "") || l.users[labels{tenant: tenant}] > 0 {
		return
	}
	m.forgetTurnedLocked(tenant)
}

// forgetTurnedLocked deletes the series of a tenant's requests that were turned away.
func (m *Metrics) forgetTurnedLocked(tenant string) {
	l := &m.series
	for t := range l.turned[tenant].of {
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
		if l.reach == nil || !l.reach(tenant, "") || pool != "" && !l.pools[pool] {
			return
		}
		one := labels{tenant: tenant}
		if l.others[one] > 0 && l.users[one] == 0 || l.turned[tenant].of == nil && len(l.turned) >= l.most {
			tenant = Other
		}
		t := l.turned[tenant]
		if t.of == nil {
			t.of = map[turned]struct{}{}
		}
		t.of[turned{tier, pool, reason}] = struct{}{}
		t.last = time.Now().Unix()
		l.turned[tenant] = t
	}
	m.requests.WithLabelValues(tenant, tier, pool, Refused, reason).Inc()
}
