package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// What each tenant's seat has of its pool's budgets, by weight.

// split puts a table's list of budgets in force in the pool, and each tenant's part of them.
func (p *poolView) split(now time.Time, tb *table, zone *time.Location, r *recall) {
	if len(p.cfg.Budgets) == 0 && len(p.shares) == 0 {
		return
	}
	parts := tb.parts(p)
	was := p.shares
	p.shares = nil
	for _, b := range p.cfg.Budgets {
		i := slices.IndexFunc(was, func(a *account) bool { return a.Same(b) })
		if i >= 0 && was[i].resize(b) {
			p.shares = append(p.shares, was[i])
			continue
		}
		a := newSplit(b, zone, p.grants)
		if i >= 0 {
			was[i].split.OnlyHere(now)
			a.split.Restore(now, was[i].restated(now, a.scale))
			a.first = was[i].origin()
			a.recalled = was[i].recalled
		} else if r.knows(p.grants != nil) {
			a.recalled = true
			a.restoreSplit(now, r, p.name, func(name string) {
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

// parts are the tenants' parts of a pool when all are busy, by tenant's index, of budget.MaxWeight
// in all. It is 0 for those that may not use it.
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
			sum += v.cfg.Weight.Thousandths()
		default:
			if groups[v.cfg.Group] == nil {
				sum += v.cfg.GroupWeight.Thousandths()
			}
			groups[v.cfg.Group] = append(groups[v.cfg.Group], v)
		}
	}
	share(p, out, top, budget.MaxWeight, sum)
	for _, members := range groups {
		in := int64(0)
		for _, v := range members {
			in += v.cfg.Weight.Thousandths()
		}
		share(p, out, members, partOf(budget.MaxWeight, members[0].cfg.GroupWeight.Thousandths(), sum), in)
	}
	return out
}

// share gives siblings, whose weights add up to sum, their parts of part, and passes on to their
// teams what is theirs.
func share(p *poolView, out []int64, siblings []*tenantView, part, sum int64) {
	for _, v := range siblings {
		own := partOf(part, v.cfg.Weight.Thousandths(), sum)
		teams := []*tenantView(nil)
		in := int64(0)
		for _, t := range v.teams {
			if t.present(p) {
				teams = append(teams, t)
				in += t.cfg.Weight.Thousandths()
			}
		}
		if v.calls(p) {
			out[v.index] = own
			if len(teams) > 0 {
				calls := escrow.Weight(1).Thousandths()
				out[v.index] = partOf(own, calls, in+calls)
				in += calls
			}
		}
		share(p, out, teams, own, in)
	}
}

// partOf is weight/sum of part, rounded down, but at least 1.
func partOf(part, weight, sum int64) int64 {
	return max(1, muldiv.Floor(part, weight, sum))
}
