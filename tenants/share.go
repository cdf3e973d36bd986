package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/lib/maxmin"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// Share is the part of a pool that one tenant or team has while all the pool's tenants ask for more than they get.
type Share struct {
	Tenant *Tenant
	// Part is that of calls with its own keys, from 0 to 1. The parts of a pool come to less than 1 only where
	// tenants' own tpm keep them below.
	Part float64
	// TPM is that part in tokens a minute; 0 where the pool has no tpm.
	TPM int64
	// Teams says that it has teams in the pool. They and its own keys, as one of them with weight 1, divide Whole,
	// which is WholeTPM in tokens a minute. Without teams these are Part and TPM.
	Teams    bool
	Whole    float64
	WholeTPM int64
}

// Shares answers for each tenant and team that may use p and has keys, or teams that do, in the order of
// [Snapshot.Tenants]. The weights aim at it: a group's weight counts once, a tenant gets the larger of its floor
// and its share by weight, and never more than its own tpm; the rest is shared on.
func (s *Snapshot) Shares(p *Pool) []Share {
	nodes, top := s.claims(p)
	capacity := float64(max(p.UsableTPM(), 1))
	divide(top, capacity)
	var list []Share
	for i, c := range nodes {
		if c == nil || !c.alive() {
			continue
		}
		part := c.gets
		if len(c.members) > 0 {
			part = 0
		}
		if c.own != nil {
			part = c.own.gets
		}
		sh := Share{Tenant: &s.tenants[i], Part: part / capacity, Teams: len(c.members) > 0, Whole: c.gets / capacity}
		if p.TPM > 0 {
			sh.TPM = int64(part + 0.5)
			sh.WholeTPM = int64(c.gets + 0.5)
		}
		list = append(list, sh)
	}
	return list
}

// claims are the nodes of p's tree by tenant, nil for who has no part in it, and those right below the pool.
func (s *Snapshot) claims(p *Pool) (nodes, top []*claim) {
	nodes = make([]*claim, len(s.tenants))
	groups := map[string]*claim{}
	callable := s.Callable()
	for i := range s.tenants {
		t := &s.tenants[i]
		if !s.Reaches(t, p) {
			continue
		}
		c := newClaim(t, p, callable[i])
		nodes[i] = c
		switch {
		case t.Parent >= 0:
			nodes[t.Parent].members = append(nodes[t.Parent].members, c) // who may use a pool has parents that may
		case t.Group == "":
			top = append(top, c)
		default:
			g := groups[t.Group]
			if g == nil {
				g = &claim{weight: float64(thousandths(t.GroupWeight)), most: float64(max(p.UsableTPM(), 1))}
				groups[t.Group] = g
				top = append(top, g)
			}
			g.members = append(g.members, c)
		}
	}
	return nodes, slices.DeleteFunc(top, func(c *claim) bool { return !c.bound() })
}

// claim is a tenant, a team or a group that asks for all it can get.
type claim struct {
	keys        bool // somebody can call with keys of its own
	own         *claim
	members     []*claim // for a tenant with teams: these, and own
	weight      float64
	least, most float64
	gets        float64
}

func newClaim(t *Tenant, p *Pool, keys bool) *claim {
	c := &claim{keys: keys, weight: float64(thousandths(t.Weight)), most: float64(max(p.UsableTPM(), 1))}
	if p.TPM > 0 {
		for _, tpm := range []int64{t.TPM, t.LimitsIn(p).TPM} {
			if tpm > 0 {
				c.most = min(c.most, float64(tpm))
			}
		}
		c.least = min(float64(t.FloorTPM), c.most)
	}
	return c
}

// alive reports whether anybody calls below c.
func (c *claim) alive() bool { return c.keys || len(c.members) > 0 }

// bound finds the least and the most that c gets, its members' bounds considered, and reports whether anybody calls.
func (c *claim) bound() bool {
	c.members = slices.DeleteFunc(c.members, func(m *claim) bool { return !m.bound() })
	if len(c.members) == 0 {
		return c.keys
	}
	if c.keys {
		c.own = &claim{keys: true, weight: float64(thousandths(defaultWeight)), most: c.most}
		c.members = append(c.members, c.own)
	}
	least := 0.0
	most := 0.0
	for _, m := range c.members {
		least = least + m.least
		most = most + m.most
	}
	c.most = min(c.most, most)
	if c.least == 0 {
		c.least = least
	}
	c.least = min(c.least, c.most)
	return true
}

// divide shares capacity among claims, and each claim's share among its members.
func divide(claims []*claim, capacity float64) {
	fill(claims, capacity)
	for _, c := range claims {
		if len(c.members) > 0 {
			divide(c.members, c.gets)
		}
	}
}

// fill shares capacity by weight within each claim's bounds. Floors that come to more than the capacity are
// scaled down, because an own tpm above them allows no more.
func fill(claims []*claim, capacity float64) {
	list := make([]maxmin.Claim, len(claims))
	for i, c := range claims {
		list[i] = maxmin.Claim{ID: i, Weight: c.weight, Floor: c.least, Demand: c.most}
	}
	maxmin.Divide(capacity, list)
	for i := range list {
		c := &list[i]
		claims[c.ID].gets = c.Share
	}
}

// Uncalled lists the entries of the pool's models that no tenant may call.
func (s *Snapshot) Uncalled(p *Pool) []string {
	var list []string
	callable := s.Callable()
	for _, m := range p.Models {
		called := false
		for i := range s.tenants {
			if callable[i] && s.calls(&s.tenants[i], p, m) {
				called = true
				break
			}
		}
		if !called {
			list = append(list, m)
		}
	}
	return list
}

// calls reports whether t may call a model that the pool's entry m leads to.
func (s *Snapshot) calls(t *Tenant, p *Pool, m string) bool {
	if !glob.Is(m) {
		return t.MayUse(m)
	}
	return slices.ContainsFunc(s.scope(t), func(grant string) bool {
		if glob.Is(grant) {
			return glob.Overlap(grant, m)
		}
		at, ok := s.routes.find(grant)
		return ok && at == p.Index && glob.Match(m, grant)
	})
}
