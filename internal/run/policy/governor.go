package policy

import (
	"cmp"
	"slices"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/tenants"
)

// Governor is the governor's configuration for a snapshot: its rules, and no clock, journal, store or observer.
func Governor(snap *tenants.Snapshot) governor.Config {
	cfg := governor.Config{Zone: snap.Location(), Revision: snap.Hash()}
	pools := snap.Pools()
	for i := range pools {
		cfg.Pools = append(cfg.Pools, pool(&pools[i]))
		cfg.Pools[i].Even = slices.ContainsFunc(snap.Config().Upstreams, func(u tenants.Upstream) bool {
			return u.Kind == tenants.Azure && slices.ContainsFunc(pools[i].Upstreams, func(at tenants.PoolUpstream) bool { return at.Name == u.Name })
		})
	}
	list := snap.Tenants()
	callable := snap.Callable()
	cfg.Tenants = make([]governor.Tenant, 0, len(list))
	for i := range list {
		t := tenant(&list[i])
		t.NoCalls = !callable[i] // a tenant without a key is there for its teams
		t.Barred = list[i].Blocked != nil
		for _, j := range snap.PoolsOf(&list[i]) {
			t.Pools = append(t.Pools, pools[j].Name)
		}
		cfg.Tenants = append(cfg.Tenants, t)
	}
	return cfg
}

// pool is the governor's side of a pool, with the upstreams that have limits of their own.
func pool(p *tenants.Pool) governor.Pool {
	out := p.Pool
	if !p.UpstreamsLimited() {
		return out
	}
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		own := governor.Upstream{Name: u.Name, Weight: u.Weight, Order: u.Order}
		terms.Set(&own, u)
		out.Upstreams = append(out.Upstreams, own)
	}
	return out
}

// tenant is the governor's side of a tenant, as far as the tenant alone decides it.
func tenant(t *tenants.Tenant) governor.Tenant {
	out := governor.Tenant{
		Name:        t.Name,
		Tier:        t.Tier,
		Weight:      escrow.Weight(t.Weight),
		Group:       t.Group,
		GroupWeight: escrow.Weight(t.GroupWeight),
		Floor:       t.FloorTPM,
		Credit:      t.Credit,
		Background:  t.Background,
		Below:       int(t.Below),
		Windows:     t.Windows,
		Budgets:     t.Budgets,
		MaxWait:     t.MaxWait,
		Members:     members(t.Members),
		Shadow:      t.Shadow,
		Pools:       []string{}, // because nil would be all
	}
	terms.Set(&out, t)
	if len(t.Pools) > 0 {
		out.InPool = make(map[string]governor.Limits, len(t.Pools))
	}
	for _, l := range t.Pools {
		out.InPool[l.Pool] = l.Limits
	}
	return out
}

// members are the governor's side of members. Whom the policy blocks it bars itself.
func members(m *tenants.Members) *terms.Members {
	if m == nil {
		return nil
	}
	out := &terms.Members{Each: member(&m.Each)}
	for name, o := range m.Override {
		if out.Of == nil {
			out.Of = map[string]terms.MemberOverride{}
		}
		out.Of[m.Named(name)] = *override(&o)
	}
	return out
}

func override(l *tenants.MemberLimits) *terms.MemberOverride {
	if l == nil {
		return nil
	}
	return &terms.MemberOverride{Tenant: member(l), Until: l.Until, Then: override(l.Then)}
}

func member(l *tenants.MemberLimits) governor.Tenant {
	out := governor.Tenant{Weight: escrow.Weight(cmp.Or(l.Weight, 1)), Windows: l.Windows, Budgets: l.Budgets}
	terms.Set(&out, l)
	return out
}
