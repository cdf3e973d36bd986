package slots

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/llmgov/llmgov/escrow"
)

// Rules of slots in a pool whose slots are divided over processes. Each number of slots that a rule sets is a limit on the calls of all
// processes, and divided over these like any other. All calls count in those that calls of a band may begin in, of whatever band, and in those
// that are lent to whoever asks; only its own count in what a tenant may use.

// Bound is a number that a rule sets: for calls of a band, for those of one tenant, with its teams, or, with neither, what is lent.
type Bound struct {
	Rule   string
	Below  int // how far the band is below the highest
	Tenant escrow.NodeID
}

// BoundDemand is the demand of this process on what a bound leaves.
type BoundDemand struct {
	Bound
	// Name is that by which other processes know it.
	Name string
	// Limit is how many slots may be in use in all processes. Used are in use here, Waiting calls lack one of them, and up to Ahead are
	// wanted in advance. Weighted says that processes that want more have parts by the weights of the Stakes.
	Limit, Used, Waiting, Ahead int64
	Weighted                    bool
}

// BoundGrant is how many slots a bound leaves here, and how many are in use in other processes.
type BoundGrant struct {
	Bound
	Slots, Others int64
}

// mostCapped is how many tenants a process tells of at most for each rule: those with the most calls.
const mostCapped = 32

// demandBounds fills in the demand on what the rules leave.
func (s *Side) demandBounds(d *Demand) {
	kept := s.excuseKept(d)
	rules := s.pool.Rules()
	for n := range rules {
		switch r := &rules[n]; {
		case r.Of == escrow.Lower:
			s.demandBands(d, r)
		case r.Of == escrow.Claimants:
			s.demandTenants(d, r, kept)
		case r.Own && s.Limiter == nil: // else each process leaves slots free of its own
			d.Bounds = append(d.Bounds, BoundDemand{
				Bound: Bound{Rule: r.Name}, Name: "background", Limit: r.Sized(d.Together).Most[0],
				Used: s.pool.InBackground(), Waiting: d.Background, Ahead: math.MaxInt64, Weighted: true,
			})
		}
	}
}

// demandBands fills in the demand on the slots that calls of lower bands may begin in. Each process tells of all bands that tenants are in,
// because its calls of higher ones take room as well.
func (s *Side) demandBands(d *Demand, r *escrow.Rule) {
	var waiting, calls [escrow.LowestBand + 1]int64
	var there [escrow.LowestBand + 1]bool
	lacking := map[escrow.NodeID]int64{}
	for _, x := range s.nodes {
		if !x.Leaf {
			continue
		}
		n := s.pool.Node(x.ID)
		there[n.Below] = true
		calls[n.Below] += int64(n.Running + n.Queued)
		if by, kept := s.pool.KeptOut(x.ID); (by == nil || by.Of != escrow.Claimants) && (kept == n.Queued || !s.pool.Free()) {
			waiting[n.Below] += int64(n.Queued)
			lacking[s.pool.Top(x.ID)] += int64(n.Queued)
		}
	}
	s.tellUse(d, lacking)
	room := r.Sized(d.Together).Most
	for below := escrow.LowestBand; below > 0; below-- {
		if !there[below] {
			continue
		}
		b := BoundDemand{
			Bound: Bound{Rule: r.Name, Below: below}, Name: r.Name + ": " + strconv.Itoa(below) + " below the highest",
			Limit: room[below], Used: d.Running, Waiting: waiting[below], Ahead: math.MaxInt64,
		}
		if calls[below] == 0 { // room for the first is enough
			b.Ahead = 1
		}
		d.Bounds = append(d.Bounds, b)
	}
}

// demandTenants fills in the demand on what a rule leaves single tenants. Calls that only this rule keeps waiting lack no slot. kept are
// those that other rules keep waiting, by tenant.
func (s *Side) demandTenants(d *Demand, r *escrow.Rule, kept map[escrow.NodeID]int64) {
	all := r.Sized(d.Together)
	lent := BoundDemand{Bound: Bound{Rule: r.Name}, Name: r.Name + ": lent", Limit: all.Lent, Used: d.Running}
	unlent := max(0, all.Lent-d.Running-s.grant.Others)
	var tenants []BoundDemand
	for _, x := range s.nodes {
		n := s.pool.Node(x.ID)
		if !n.Capped || n.Queued+n.Running == 0 {
			continue
		}
		t := BoundDemand{
			Bound: Bound{Rule: r.Name, Tenant: x.ID}, Name: r.Name + ": calls of " + x.Name,
			Limit: all.Most[0], Used: int64(n.Running), Waiting: int64(n.Queued) - kept[x.ID], Ahead: math.MaxInt64,
		}
		tenants = append(tenants, t)
		beyond := t.Waiting - max(0, t.Limit-t.Used-s.grant.elsewhere(t.Bound))
		if beyond <= 0 {
			continue
		}
		lent.Waiting += min(beyond, unlent)
		d.excuse(s.pool.Top(x.ID), beyond-unlent, int64(n.Later))
	}
	slices.SortStableFunc(tenants, func(a, b BoundDemand) int { return cmp.Compare(b.Used+b.Waiting, a.Used+a.Waiting) })
	if lent.Limit > 0 {
		d.Bounds = append(d.Bounds, lent)
	}
	d.Bounds = append(d.Bounds, tenants[:min(len(tenants), mostCapped)]...)
}

// of is what is granted of a bound; nothing if no grant says anything of it.
func (g *Grant) of(b Bound) BoundGrant {
	if i := slices.IndexFunc(g.Bounds, func(x BoundGrant) bool { return x.Bound == b }); i >= 0 {
		return g.Bounds[i]
	}
	return BoundGrant{Bound: b}
}

// elsewhere is how many slots that count in a bound are in use in other processes, as far as is known.
func (g *Grant) elsewhere(b Bound) int64 { return g.of(b).Others }

// bind has the rules hold as granted, in a pool that has just been narrowed to some slots.
func (s *Side) bind(slots int64) {
	rules := s.pool.Rules()
	for n := range rules {
		s.pool.Bind(n, s.granted(&rules[n], slots))
	}
}

// granted are the bounds of a rule: as granted, or a part of the slots here where no grant says anything. A band without one has that of a
// lower one, if this is more. A tenant without one may have its first call, or, if there are more tenants than are told of, its part of the
// slots here.
func (s *Side) granted(r *escrow.Rule, slots int64) escrow.Bounds {
	b := r.Bounds
	if r.Of == escrow.Claimants && s.Granted() {
		b.Each = map[escrow.NodeID]int64{}
	}
	var banded [escrow.LowestBand + 1]bool
	for _, g := range s.grant.Bounds {
		switch {
		case g.Rule != r.Name:
		case r.Of == escrow.Background && r.Own:
			b.Most[0] = g.Slots
			b.Soon = s.forBackground(s.Limit()) - g.Others
		case r.Of == escrow.Background:
			b.Most[0] = slots
		case g.Below > 0:
			b.Most[g.Below] = g.Slots
			banded[g.Below] = true
		case g.Tenant != escrow.Root:
			b.Each[g.Tenant] = g.Slots
		default:
			b.Lent = g.Slots
		}
	}
	if b.Each != nil && len(b.Each) < mostCapped {
		b.Most[0] = 1
	}
	for below := escrow.LowestBand - 1; below > 0; below-- {
		if !banded[below] {
			b.Most[below] = max(b.Most[below], b.Most[below+1])
		}
	}
	return b
}

// Standing is how a rule of slots stands to a call.
type Standing struct {
	Rule string
	// Limit is how many slots may be in use in all processes when the call begins, and Used how many are, of those that the rule counts.
	Limit, Used int64
	// Keeps says that this rule is what keeps the call waiting.
	Keeps bool
}

// Standings are those of all rules that are of a call, the ones first that are asked first.
func (s *Side) Standings(call *escrow.Call) (list []Standing) {
	by := s.pool.Keeps(call)
	if by == nil || by.Of != escrow.Claimants && !s.pool.Free() { // then it is a slot that lacks
		by = &escrow.Rule{}
	}
	if most, running := s.pool.Restriction(call); most > 0 {
		list = append(list, Standing{escrow.PerTenant, most, running, by.Name == escrow.PerTenant})
	}
	rules := s.pool.Rules()
	for n := range rules {
		r := &rules[n]
		if n > 0 && rules[n-1].Name == r.Name {
			continue
		}
		if limit, used, is := s.bound(r, call.Leaf, call.Background); is {
			list = append(list, Standing{r.Name, limit, used, by.Name == r.Name})
		}
	}
	return list
}

// bound is how many slots may be in use in all processes by a rule when a call begins, and how many are, of those that the rule counts. It is
// false if the rule is not of such calls.
func (s *Side) bound(r *escrow.Rule, leaf escrow.NodeID, background bool) (limit, used int64, is bool) {
	limit, used = s.InUse()
	switch r.Of {
	case escrow.Background:
		limit, used = s.Background()
		return limit, used, background
	case escrow.Lower:
		below := s.pool.Node(leaf).Below
		return r.Sized(limit).Most[below], used, below > 0
	}
	tenant := s.pool.Claimant(leaf)
	limit = r.Most[0]
	if r.Each != nil { // as granted
		limit = r.Sized(s.Together()).Most[0]
	}
	return limit, int64(s.pool.Node(tenant).Running) + s.grant.elsewhere(Bound{Rule: r.Name, Tenant: tenant}), tenant != escrow.Root
}

// roomComing reports whether one more call of a leaf that a rule keeps waiting, or none, may be granted room, or be lent a slot.
func (s *Side) roomComing(by *escrow.Rule, leaf escrow.NodeID) bool {
	if by == nil || by.Of == escrow.Background {
		return true
	}
	limit, used, _ := s.bound(by, leaf, false)
	switch {
	case by.Name == escrow.PerTenant:
		return false
	case by.Of == escrow.Lower:
		return used < limit
	}
	_, all := s.InUse()
	waiting := int64(s.pool.Node(s.pool.Claimant(leaf)).Queued)
	return used+waiting <= limit || all+waiting <= by.Sized(s.Together()).Lent
}
