package telemetry

// MaxAccounts is how many tenants have series of their own, counted once for each pool
// that they may use: each has some twenty. Those who come into a policy when there are so many
// already are counted together, as the tenant Other, for as long as they stay.
const MaxAccounts = 2000

// Other is the label of all tenants that have no series of their own.
const Other = "other"

// labelLocked is what the series of a tenant in a pool are labelled with. Who had series
// keeps them.
func (l *life) labelLocked(w who) who {
	if l.children[w] == nil && len(l.children) >= l.most || w.tenant == Other {
		w.tenant = Other
	}
	return w
}

// crowd is who has no series of its own: a tenant in a pool, or, without one, in none.
type crowd map[who]bool

func (l *life) crowd() crowd {
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

// name is what gauges call a tenant in a pool, or, without one, in all.
func (c crowd) name(tenant, pool string) string {
	if c[who{tenant: tenant, pool: pool}] {
		return Other
	}
	return tenant
}

// countLocked adds an account to those of its label, or takes it off.
func (l *life) countLocked(a *Account, by int) {
	add := func(counts map[who]int, w who) {
		counts[w] += by
		if counts[w] == 0 {
			delete(counts, w)
		}
	}
	for _, shared := range a.children.who.shared() {
		add(l.users, shared)
	}
	if a.children.who != a.who {
		add(l.others, who{tenant: a.who.tenant})
		add(l.others, who{tenant: a.who.tenant, pool: a.who.pool})
	}
}

// shared are the names under which accounts are counted.
func (w who) shared() [4]who {
	return [4]who{{tenant: w.tenant}, {pool: w.pool}, {tenant: w.tenant, pool: w.pool}, {tier: w.tier, pool: w.pool}}
}
