package governor

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/fairness"
)

// seat is a tenant's place in a pool. It is guarded by the pool's lock.
type seat struct {
	tenant  *tenant
	leaf    escrow.NodeID
	members []budget.MemberID // in each of pool.shares
	// measured is what the meter knows of the leaf; see measure.
	measured *fairness.Leaf
	// cached is which part of the tenant's prompts came from a cache, in millionths: a
	// moving average.
	cached int64
	// gone says that the leaf is given up: who comes to it by an old table is to look
	// into the new one.
	gone bool
}

// claim is a node of a pool's tree. The tree of a configuration is
//
//	pool → (group →) tenant → team → …
//
// where who has teams is a node, in which its own calls are a leaf beside them.
type claim struct {
	name claimName
	id   escrow.NodeID
	up   escrow.NodeID
	node escrow.Node
	ppm  int64
	kept bool // by the configuration that is being applied
}

// place is where a claim hangs, and what tells two of the same parent apart.
type place struct {
	claimName
	up escrow.NodeID
}

func (c *claim) place() place { return place{c.name, c.up} }

type claimName struct {
	kind claimKind
	name string
}

type claimKind uint8

const (
	groupClaim claimKind = iota
	tenantClaim
	callsClaim // a tenant's own calls
)

// configureLocked brings a pool to what the table says. Call pumpAndUnlock afterwards.
func (p *poolView) configureLocked(now time.Time, tb *table, zone *time.Location, past *Past, shared bool) {
	rules := p.cfg.escrow(tb.burst(p))
	rules.Shared = shared
	p.rules, p.base = p.cfg, rules
	if p.escrow == nil {
		p.escrow, p.set = escrow.New(now, rules), rules
	}
	p.adaptLocked()
	p.limitLocked(now)
	p.plantLocked(tb)
	if shared {
		p.listLocked()
	}
	p.seatLocked(now, tb)
	p.viewLocked()
	p.splitLocked(now, tb, zone, past)
	p.lendLocked()
}

// burst is how much of an idle pool may be used at once: all, where there is nobody
// to be unfair to.
func (tb *table) burst(p *poolView) time.Duration {
	users := 0
	for _, v := range tb.inOrder.tenants {
		if v.calls(p) {
			users++
		}
	}
	if users == 1 {
		return escrow.Window
	}
	return p.cfg.Burst
}

// plantLocked makes the tree what the table says. What is there twice, or not at
// all any more, is retired: its calls run out where they are.
func (p *poolView) plantLocked(tb *table) {
	retired := make(map[place]*claim, len(p.retired))
	for _, c := range p.retired {
		retired[c.place()] = c
	}
	for _, v := range tb.inOrder.tenants {
		if v.parent != nil || !v.present(p) {
			continue
		}
		up := escrow.Root
		if v.cfg.Group != "" {
			up = p.claimLocked(retired, claimName{groupClaim, v.cfg.Group}, escrow.Root, escrow.Node{Weight: v.cfg.GroupWeight})
		}
		p.plantTenantLocked(retired, v, up)
	}
	for name, c := range p.claims {
		if !c.kept {
			delete(p.claims, name)
			retired[c.place()] = c
		}
		c.kept = false
	}
	p.retired = slices.SortedFunc(maps.Values(retired), func(a, b *claim) int { return cmp.Compare(a.id, b.id) }) // not by chance
}

func (p *poolView) plantTenantLocked(retired map[place]*claim, v *tenantView, up escrow.NodeID) {
	node := escrow.Node{Weight: v.cfg.Weight, Floor: v.cfg.Floor, Credit: v.cfg.Credit}
	if !slices.ContainsFunc(v.teams, func(t *tenantView) bool { return t.present(p) }) {
		p.claimLocked(retired, claimName{callsClaim, v.name}, up, node)
		return
	}
	id := p.claimLocked(retired, claimName{tenantClaim, v.name}, up, node)
	if v.calls(p) {
		p.claimLocked(retired, claimName{callsClaim, v.name}, id, escrow.Node{Weight: escrow.WeightOne})
	}
	for _, team := range v.teams {
		if team.present(p) {
			p.plantTenantLocked(retired, team, id)
		}
	}
}

// claimLocked hangs a node into the tree, or keeps the one that is there, also if it
// was retired and has not gone yet. Who moves begins anew where it moves to.
func (p *pool) claimLocked(retired map[place]*claim, name claimName, up escrow.NodeID, node escrow.Node) escrow.NodeID {
	c := p.claims[name]
	if c != nil && c.up != up {
		retired[c.place()] = c
		c = nil
	}
	if c == nil {
		c = retired[place{name, up}]
		delete(retired, place{name, up})
	}
	switch {
	case c == nil:
		c = &claim{name: name, id: p.escrow.Add(up, node), up: up, node: node, ppm: wholeClaim}
	case c.node != node:
		p.escrow.Update(c.id, node)
		c.node = node
	}
	c.kept = true
	p.claims[name] = c
	return c.id
}

// sweepStride is how many retired nodes are looked at whenever a pool is pumped:
// there may be thousands, and each of them may wait for the end of a long stream.
const sweepStride = 8

// sweepLocked removes some of what was retired, if nothing is lost by it any more.
func (p *pool) sweepLocked(now time.Time) {
	for range min(sweepStride, len(p.retired)) {
		last := len(p.retired) - 1
		p.sweep = min(p.sweep, last)
		if !p.escrow.Remove(now, p.retired[p.sweep].id) {
			p.sweep = (p.sweep + 1) % len(p.retired)
			continue
		}
		p.retired[p.sweep], p.retired[last] = p.retired[last], nil
		p.retired = p.retired[:last]
	}
}

// seatLocked gives the tenants their seats: those whose leaf is the same keep them.
func (p *poolView) seatLocked(now time.Time, tb *table) {
	old := p.seats
	p.seats = make(map[*tenant]*seat, len(old))
	for _, v := range tb.inOrder.tenants {
		if !v.calls(p) {
			continue
		}
		leaf := p.claims[claimName{callsClaim, v.name}].id
		st := old[v.tenant]
		switch {
		case st == nil:
			st = &seat{tenant: v.tenant, leaf: leaf, measured: fairness.NewLeaf(p.escrow.Account(leaf))}
		case st.leaf != leaf:
			st.gone = true
			st = &seat{tenant: v.tenant, leaf: leaf, members: st.members, cached: st.cached, measured: fairness.NewLeaf(p.escrow.Account(leaf))}
		}
		delete(old, v.tenant)
		p.seats[v.tenant] = st
		v.access[p.index].seat = st
	}
	for _, st := range slices.SortedFunc(maps.Values(old), func(a, b *seat) int { return cmp.Compare(a.leaf, b.leaf) }) {
		st.gone = true
		for i, m := range st.members {
			p.shares[i].split.Remove(now, m)
		}
	}
}

// splitLocked brings the pool's budgets to what the table says, and what each tenant
// has of them.
func (p *poolView) splitLocked(now time.Time, tb *table, zone *time.Location, past *Past) {
	if len(p.cfg.Budgets) == 0 && len(p.shares) == 0 {
		return
	}
	parts := tb.parts(p)
	was := p.shares
	p.shares = nil
	for _, b := range p.cfg.Budgets {
		i := slices.IndexFunc(was, b.same)
		if i >= 0 && was[i].resize(b) {
			p.shares = append(p.shares, was[i])
			continue
		}
		a := newSplit(b, zone, p.lent)
		if i >= 0 {
			was[i].split.OnlyHere(now)
			a.split.Restore(now, was[i].restated(now, a.scale))
		} else if past != nil && p.lent == nil {
			a.restoreSplit(now, past, p.name, func(name string) {
				if v := tb.tenants[name]; v != nil && parts[v.index] > 0 {
					a.split.Add(now, name, parts[v.index])
				}
			})
		}
		p.shares = append(p.shares, a)
	}
	for _, v := range tb.inOrder.tenants {
		if st := v.access[p.index].seat; st != nil {
			st.members = nil
			for _, a := range p.shares {
				st.members = append(st.members, a.split.Add(now, v.name, parts[v.index]))
			}
		}
	}
}

// parts are the tenants' parts of a pool when all are busy, by tenant, of
// budget.MaxWeight in all; 0 is for who may not use it.
func (tb *table) parts(p *poolView) []int64 {
	out := make([]int64, len(tb.inOrder.tenants))
	var top []*tenantView
	groups := map[string][]*tenantView{}
	sum := int64(0)
	for _, v := range tb.inOrder.tenants {
		switch {
		case v.parent != nil || !v.present(p):
		case v.cfg.Group == "":
			top = append(top, v)
			sum += int64(v.cfg.Weight)
		default:
			if groups[v.cfg.Group] == nil {
				sum += int64(v.cfg.GroupWeight)
			}
			groups[v.cfg.Group] = append(groups[v.cfg.Group], v)
		}
	}
	share(p, out, top, budget.MaxWeight, sum)
	for _, members := range groups {
		in := int64(0)
		for _, v := range members {
			in += int64(v.cfg.Weight)
		}
		share(p, out, members, partOf(budget.MaxWeight, int64(members[0].cfg.GroupWeight), sum), in)
	}
	return out
}

// share gives siblings, whose weights come to sum, their parts of part, and what is
// below them theirs.
func share(p *poolView, out []int64, siblings []*tenantView, part, sum int64) {
	for _, v := range siblings {
		own := partOf(part, int64(v.cfg.Weight), sum)
		teams, in := []*tenantView(nil), int64(0)
		for _, t := range v.teams {
			if t.present(p) {
				teams = append(teams, t)
				in += int64(t.cfg.Weight)
			}
		}
		if v.calls(p) {
			out[v.index] = own
			if len(teams) > 0 {
				in += int64(escrow.WeightOne)
				out[v.index] = partOf(own, int64(escrow.WeightOne), in)
			}
		}
		share(p, out, teams, own, in)
	}
}
