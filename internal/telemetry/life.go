package telemetry

import (
	"math"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// who names the series of a tenant in a pool; with names left out, of all that
// share the others.
type who struct{ tenant, tier, pool string }

// life is how long series are there: those of a tenant in a pool as long as the
// policy knows it there, and after that until the last call has ended that counts
// in them.
type life struct {
	mu             sync.Mutex
	most           int                            // see MaxAccounts
	tenants, pools map[string]bool                // that the policy knows
	accounts       map[who]*Account               // by who they are
	children       map[who]*children              // by what they are labelled
	users          map[who]int                    // how many accounts a label has, of a tenant, a pool, both, and a tier in a pool
	others         map[who]int                    // how many a tenant has that count with others, in all and in a pool
	turned         map[string]map[turned]struct{} // what was turned away, by tenant
}

// turned is what tells the requests of a tenant that were turned away apart.
type turned struct{ tier, pool, reason string }

func newLife() life {
	return life{
		most: MaxAccounts, pools: map[string]bool{}, accounts: map[who]*Account{}, children: map[who]*children{},
		users: map[who]int{}, others: map[who]int{}, turned: map[string]map[turned]struct{}{},
	}
}

// closed is what calls are counted up from when the series are gone: none ever
// comes near to 0.
const closed = math.MinInt64 / 2

// Hold keeps the account's series there until Release. It reports false when they
// are gone, since the policy in force does not know the tenant in that pool.
func (a *Account) Hold() bool { return a.calls.Add(1) > 0 }

// Release ends a Hold that was true. The last one takes the series of a tenant with
// it that the policy does not know any more.
func (a *Account) Release() {
	if a.calls.Add(-1) != 0 || !a.gone.Load() {
		return
	}
	m := a.metrics
	m.life.mu.Lock()
	defer m.life.mu.Unlock()
	m.buryLocked(a)
}

func (m *Metrics) knowPool(name string) {
	m.life.mu.Lock()
	defer m.life.mu.Unlock()
	m.life.pools[name] = true
}

// Retain says which pools the policy in force has, and which of them each tenant may
// use. All other series go: at once, or with the last call that counts in them.
func (m *Metrics) Retain(pools []string, reaches map[string][]string) {
	l := &m.life
	l.mu.Lock()
	defer l.mu.Unlock()
	tenantsBefore := l.tenants
	poolsBefore := l.pools
	l.tenants = map[string]bool{}
	l.pools = map[string]bool{}
	for _, pool := range pools {
		l.pools[pool] = true
	}
	known := map[who]bool{}
	for tenant, list := range reaches {
		l.tenants[tenant] = true
		for _, pool := range list {
			known[who{tenant: tenant, pool: pool}] = true
		}
	}
	for w, a := range l.accounts {
		a.gone.Store(!known[who{tenant: w.tenant, pool: w.pool}])
		m.buryLocked(a)
	}
	for tenant := range tenantsBefore {
		m.forgetTenantLocked(tenant)
	}
	m.forgetTenantLocked(Other)
	for pool := range poolsBefore {
		m.forgetPoolLocked(pool)
	}
}

// buryLocked deletes the series of an account that nobody needs.
func (m *Metrics) buryLocked(a *Account) {
	if !a.gone.Load() || !a.calls.CompareAndSwap(0, closed) {
		return
	}
	w := a.children.who
	l := &m.life
	delete(l.accounts, a.who)
	l.countLocked(a, -1)
	a.accounts--
	if a.accounts == 0 {
		delete(l.children, w)
		a.children.delete()
	}
	if l.users[who{tier: w.tier, pool: w.pool}] == 0 {
		m.queueWait.DeleteLabelValues(w.tier, w.pool)
	}
	m.forgetTenantLocked(w.tenant)
	m.forgetPoolLocked(w.pool)
}

// forgetTenantLocked deletes what is left of a tenant.
func (m *Metrics) forgetTenantLocked(tenant string) {
	l := &m.life
	if l.tenants[tenant] || l.users[who{tenant: tenant}] > 0 {
		return
	}
	for t := range l.turned[tenant] {
		m.requests.DeleteLabelValues(tenant, t.tier, t.pool, Refused, t.reason)
	}
	delete(l.turned, tenant)
}

// forgetPoolLocked deletes what is left of a pool.
func (m *Metrics) forgetPoolLocked(pool string) {
	l := &m.life
	if l.pools[pool] || l.users[who{pool: pool}] > 0 {
		return
	}
	of := prometheus.Labels{"pool": pool}
	m.requests.DeletePartialMatch(of)
	m.firstToken.Delete(of)
	m.duration.Delete(of)
	m.estimateError.Delete(of)
	m.cancelled.Delete(of)
	m.upstreamErrors.DeletePartialMatch(of)
}

// Turned counts a request that was turned away before it had a tenant and a
// pool, or either: those not known are empty. Of a tenant or a pool that the policy
// does not know any more nothing is counted, for its series would stay for ever.
func (m *Metrics) Turned(tenant, tier, pool, reason string) {
	if tenant != "" {
		l := &m.life
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.tenants[tenant] || pool != "" && !l.pools[pool] {
			return
		}
		one := who{tenant: tenant}
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
