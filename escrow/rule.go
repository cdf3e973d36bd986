package escrow

import "github.com/llmgov/llmgov/internal/lib/muldiv"

// Rules of slots keep some of a pool's slots for some of its calls. All are values of one: calls of a group may begin only while fewer
// than so many slots are in use, by that group or by all. They are a list (Config.Rules, and Restrict for single leaves), and which of them
// keeps a call from beginning is asked in one place (keptBy).
//
//   - A rule that counts the slots of one claimant or leaf has it stand aside: see aside.go.
//   - One that counts those of all gives way to turns, or calls would never begin beside others that always have some waiting: those of lower
//     bands rise to higher ones (bands.go). Background calls are not kept while interactive ones wait. And neither is kept for a node that
//     has less than its share of the slots in use.

// Rule is a rule of slots.
type Rule struct {
	// Name is the key by which users know it. Of two with the same name the first is the one that is shown, and shared.
	Name string
	// Of is whose calls it keeps from beginning. Own says that it counts the slots that these use, and not those in use by all: one of
	// Claimants always does, and one of Lower never.
	Of  Group
	Own bool
	// Free is how many of the slots it leaves free, and FreePPM how many more, in millionths.
	Free, FreePPM int64
	// LentPPM is the part of the slots that is lent to whoever asks, in millionths. If Most leaves each claimant as many slots, none is lent.
	LentPPM int64
	// Bounds are those in force.
	Bounds

	of int64 // Config.Slots
}

// Bounds are the numbers of slots that a rule sets.
type Bounds struct {
	// Most is how many slots may be in use when a call begins, by how far its leaf is below the highest band.
	Most Room
	// Each is the same of single claimants for which Most does not hold.
	Each map[NodeID]int64
	// Lent is how many slots have to be in use for the rule to hold.
	Lent int64
	// Soon is Most once other processes give up slots that they have too many of; 0 is the same.
	Soon int64
}

// Room is a number of slots for each band, by how far that is below the highest.
type Room [LowestBand + 1]int64

// Group is a group of calls.
type Group uint8

const (
	Claimants  Group = iota // those below a node that is Node.Capped, of each for itself
	Lower                   // those of leaves below the highest band: the lower, the more slots they leave free
	Background              // background calls
)

// The rules that a Config may have, and that of Restrict.
const (
	SoftCap            = "soft_cap"
	HoldBack           = "hold_back"
	InteractiveReserve = "interactive_reserve"
	PerTenant          = "per_tenant"
)

// perTenant is the rule of all restrictions.
var perTenant = Rule{Name: PerTenant, Of: Claimants, Own: true}

// wholeSlots is the whole of the slots, in parts per million.
const wholeSlots = 1_000_000

// Rules are those of the pool's slots, in the order in which they are asked.
func (c *Config) Rules() (list []Rule) {
	add := func(set int64, r Rule) {
		if set > 0 && c.Slots > 0 {
			r.of = c.Slots
			list = append(list, r)
		}
	}
	add(c.SoftCap, Rule{Name: SoftCap, Of: Claimants, Own: true, FreePPM: wholeSlots - c.SoftCap, LentPPM: wholeSlots / 2})
	add(c.HoldBack, Rule{Name: HoldBack, Of: Lower, FreePPM: c.HoldBack})
	add(c.InteractiveReserve, Rule{Name: InteractiveReserve, Of: Background, Own: true, Free: c.InteractiveReserve})
	add(c.InteractiveReserve, Rule{Name: InteractiveReserve, Of: Background, Free: c.InteractiveReserve})
	return list
}

// Sized are the bounds of the rule in a pool of which so many slots are used.
func (r *Rule) Sized(slots int64) (b Bounds) {
	free := r.Free
	if slots < r.of { // a large reserve would leave nothing else
		free = min(free, slots/2)
	}
	free = max(0, min(free+muldiv.Ceil(slots, r.FreePPM, wholeSlots), slots-1))
	for below := range b.Most {
		b.Most[below] = max(1, slots-free)
		if r.Of == Lower {
			b.Most[below] = max(1, slots-ceilDiv(free*int64(below), LowestBand))
		}
	}
	lent := muldiv.Floor(slots, r.LentPPM, wholeSlots)
	if lent > b.Most[0] { // otherwise a claimant that the rule keeps has as many already
		b.Lent = lent
	}
	return b
}

// Narrow lets only so many of Config.Slots be used: what can be used at once was found to be less than it may be, or others have the rest.
// Rules hold for these. Calls that run beyond that run on, and none is dispatched until there are fewer. The virtual cost of a call does
// not change, so shares stay as they are while the number moves. Configure takes it back. It
// changes nothing in a pool without Slots. Call Pump afterwards. It panics on a number out of range.
// O(rules).
func (p *Pool) Narrow(slots int64) {
	if slots < 0 || slots > p.cfg.Slots {
		panic("escrow: BUG: narrowed to a number of slots that is out of range")
	}
	p.slots = slots
	p.soon = slots
	for n := range p.rules {
		p.rules[n].Bounds = p.rules[n].Sized(slots)
	}
}

// Bind has the n-th of Rules hold as told, and not as a part of the slots that may be used here, until Narrow or Configure: the slots are
// shared with other processes, whose calls count as well. Call Pump afterwards.
func (p *Pool) Bind(n int, b Bounds) { p.rules[n].Bounds = b }

// Rules are the rules of the pool's slots in force, for reading.
func (p *Pool) Rules() []Rule { return p.rules }

// Expect says how many slots can soon be used, if the pool was narrowed to fewer only for the moment.
// Predictions go by that until Narrow or Configure.
func (p *Pool) Expect(slots int64) { p.soon = max(p.slots, slots) }

// Free reports whether a slot is free, whoever may have it.
func (p *Pool) Free() bool { return p.cfg.Slots == 0 || p.running < p.slots }

// Keeps is the rule that keeps a new call from beginning, whether or not a slot is free; nil if none does.
func (p *Pool) Keeps(c *Call) *Rule {
	if p.rules == nil && len(p.nodes[c.Leaf].restricted) == 0 {
		return nil
	}
	e := p.entryOf(c)
	by, _ := p.keptBy(e.leaf, e.class, &e)
	return by
}

// KeptOut is the rule that keeps the calls waiting that wait at a leaf, and how many; nil if none does. It keeps kept places out as well,
// which are not counted.
func (p *Pool) KeptOut(i NodeID) (by *Rule, calls int) {
	n := &p.nodes[i]
	if by, _ = p.keptBy(i, interactive, p.firstWaiting(i)); by != nil {
		return by, int(n.waiting())
	}
	if n.later > 0 {
		by = p.reserved(i)
	}
	if by != nil {
		calls = int(n.queued[background])
	}
	return by, calls
}

// keptBy is the first rule that keeps a call of a leaf from beginning, whether or not a slot is free; nil if none does. If that counts the
// slots of a single node, it says of which, else Root. e is the call, or nil for any that comes now.
// O(rules · depth).
func (p *Pool) keptBy(leaf NodeID, class rank, e *entry) (by *Rule, at NodeID) {
	if e != nil && p.restricts(e) {
		return &perTenant, leaf
	}
	for n := range p.rules {
		if at, keeps := p.keeps(&p.rules[n], leaf, class, e); keeps {
			return &p.rules[n], at
		}
	}
	return nil, Root
}

// keeps reports whether a rule keeps such a call from beginning: see keptBy.
func (p *Pool) keeps(r *Rule, leaf NodeID, class rank, e *entry) (at NodeID, keeps bool) {
	switch {
	case p.running < r.Lent, r.Of == Background && class != background:
		return Root, false
	case r.Of == Claimants:
		at = p.Claimant(leaf)
		for at != Root && int64(p.nodes[at].running) < r.mostOf(at) {
			at = p.Claimant(p.nodes[at].parent)
		}
		return at, at != Root
	case r.Of == Lower:
		return Root, p.keepsOut(r, leaf, e)
	case r.Own:
		return Root, p.background >= r.Most[0] && r.Most[0] < p.slots // where it leaves none free it keeps nobody
	}
	return Root, p.running >= r.Most[0] && p.Free() && p.nodes[Root].ready[interactive] == 0 && !p.owed(leaf)
}

// mostOf is how many slots a claimant may use.
func (r *Rule) mostOf(claimant NodeID) int64 {
	if most, told := r.Each[claimant]; told {
		return most
	}
	return r.Most[0]
}

// reserved is the rule that keeps background calls of a leaf waiting, or for Root the first one in line, and not the turns of others; nil
// if none does.
func (p *Pool) reserved(i NodeID) *Rule {
	for n := range p.rules {
		if r := &p.rules[n]; r.Of == Background {
			if _, keeps := p.keeps(r, i, background, nil); keeps {
				return r
			}
		}
	}
	return nil
}

// opens reports whether the first background call in line finds a slot.
func (p *Pool) opens() bool { return p.Free() && p.reserved(Root) == nil }

// park notes that background calls are kept waiting by a rule, unless other processes are about to give up slots for them.
func (p *Pool) park(by *Rule) {
	if by != nil && (!by.Own || p.background >= by.Soon) {
		p.parks = true
	}
}

// Claimant is the node at or above node i whose calls a rule of Claimants counts (Node.Capped), or Root for none.
func (p *Pool) Claimant(i NodeID) NodeID {
	for i != Root && !p.nodes[i].claim.Capped {
		i = p.nodes[i].parent
	}
	return i
}
