package tenants

import "slices"

// Share is what one tenant has of a pool while all the pool's tenants ask for more than they get.
type Share struct {
	Tenant *Tenant
	// Part is from 0 to 1. The parts of a pool come to less than 1 only where tenants' own tpm keep them below.
	Part float64
	// TPM is that part in tokens a minute; 0 where the pool has no tpm.
	TPM int64
}

// Shares answers for each tenant that may use p, in the order of [Snapshot.Tenants]. It is what the weights aim at: a
// group's weight counts once, a tenant gets the larger of its floor and its share by weight, and never more than its
// own tpm; what that leaves is shared on.
func (s *Snapshot) Shares(p *Pool) []Share {
	var leaves, top []*claim
	groups := map[string]*claim{}
	for i := range s.tenants {
		t := &s.tenants[i]
		if !s.Reaches(t, p) {
			continue
		}
		leaf := newClaim(t, p)
		leaves = append(leaves, leaf)
		if t.Group == "" {
			top = append(top, leaf)
			continue
		}
		g := groups[t.Group]
		if g == nil {
			g = &claim{weight: float64(t.GroupWeight)}
			groups[t.Group] = g
			top = append(top, g)
		}
		g.members = append(g.members, leaf)
		g.least, g.most = g.least+leaf.least, g.most+leaf.most
	}
	capacity := float64(max(p.UsableTPM(), 1))
	fill(top, capacity)
	for _, g := range groups {
		fill(g.members, g.gets)
	}
	list := make([]Share, len(leaves))
	for i, leaf := range leaves {
		list[i] = Share{Tenant: leaf.tenant, Part: leaf.gets / capacity}
		if p.TPM > 0 {
			list[i].TPM = int64(leaf.gets + 0.5)
		}
	}
	return list
}

// claim is a tenant, or a group, that asks for all it can get.
type claim struct {
	tenant      *Tenant // nil for a group
	members     []*claim
	weight      float64
	least, most float64
	gets        float64
}

func newClaim(t *Tenant, p *Pool) *claim {
	c := &claim{tenant: t, weight: float64(t.Weight), most: float64(max(p.UsableTPM(), 1))}
	if p.TPM > 0 {
		if t.TPM > 0 {
			c.most = min(c.most, float64(t.TPM))
		}
		c.least = min(float64(t.FloorTPM), c.most)
	}
	return c
}

// fill shares capacity by weight within each claim's bounds: it seeks the level at which they come to capacity.
func fill(claims []*claim, capacity float64) {
	at := func(level float64) (sum float64) {
		for _, c := range claims {
			c.gets = min(max(level*c.weight, c.least), c.most)
			sum += c.gets
		}
		return sum
	}
	low, high := 0.0, 0.0
	for _, c := range claims {
		high = max(high, c.most/c.weight)
	}
	if at(high) <= capacity {
		return
	}
	for range 200 { // halving, until the two meet
		if middle := (low + high) / 2; at(middle) > capacity {
			high = middle
		} else {
			low = middle
		}
	}
	at(low)
}

// Uncalled lists the entries of the pool's models that no tenant may call.
func (s *Snapshot) Uncalled(p *Pool) []string {
	var list []string
	for _, m := range p.Models {
		if !slices.ContainsFunc(s.tenants, func(t Tenant) bool { return s.calls(&t, p, m) }) {
			list = append(list, m)
		}
	}
	return list
}

// calls reports whether t may call a model that the pool's entry m leads to.
func (s *Snapshot) calls(t *Tenant, p *Pool, m string) bool {
	return slices.ContainsFunc(t.Models, func(grant string) bool {
		if isGlob(grant) {
			return overlap(grant, m)
		}
		at, ok := s.routes.find(grant)
		return ok && at == p.Index && match(m, grant)
	})
}
