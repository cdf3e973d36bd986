package limits

import (
	"cmp"
	"slices"

	"github.com/llmgov/llmgov/escrow"
)

// Via is how calls come to a Set: as its owner's own, or through one of the owner's teams.
type Via struct {
	Team   string
	Weight escrow.Weight
	Shared bool // calls come in other ways as well
}

// Place is a call's place in line.
type Place struct {
	// Caller is whatever the caller wants to find again; see Turn.
	Caller any

	asked, cost Cost // cost is asked, cut to the limits
	asks        bool // another process lets it in, and nothing else
	asking      bool // it is asking now
	team        string
	below       int   // Call.Below
	tag, part   int64 // its start tag, and by how much it moves its team's next
}

// Cost is the cost of the call, cut to the limits.
func (p *Place) Cost() Cost { return p.cost }

// line is the calls that wait for a Set, the next one first. Calls of one team go by their priority, and in the order of
// their arrival. Where several teams wait, their weights decide, by start-time fair queueing as in
// the pools (see package escrow), but over few queues and without a tree.
type line struct {
	places []*Place
	cost   Cost // sum over places
	// While any call waits: the tag of the call that was served last, and each team's turn.
	virtual int64
	teams   map[string]inTurn
}

// inTurn is the tag at which a team's next call starts, and how many of its calls wait.
type inTurn struct {
	next  int64
	calls int
}

func (l *line) first() *Place {
	if len(l.places) == 0 {
		return nil
	}
	return l.places[0]
}

// turn is the first place that is not asking already; nil if there is none.
func (l *line) turn() *Place {
	for _, p := range l.places {
		if !p.asking {
			return p
		}
	}
	return nil
}

// wanting is the cost and number of the calls that wait for a grant.
func (l *line) wanting() (cost Cost, calls int64) {
	for _, p := range l.places {
		if !p.asks {
			cost = cost.Plus(p.cost, 1)
			calls++
		}
	}
	return cost, calls
}

// tagOf is the tag that a call of a team would have.
func (l *line) tagOf(team string) int64 { return max(l.virtual, l.teams[team].next) }

// tagBehind is the tag up to which others go before a call that joins.
func (l *line) tagBehind(c *Call) int64 {
	if at := l.behind(c); at >= 0 {
		return l.places[at].tag - 1
	}
	return l.tagOf(c.Via.Team)
}

// ahead is the cost of all that would go before a call with this tag.
func (l *line) ahead(tag int64) Cost {
	n := len(l.places)
	if n == 0 || l.places[n-1].tag <= tag {
		return l.cost
	}
	var sum Cost
	for _, p := range l.places[:l.after(tag)] {
		sum = sum.Plus(p.cost, 1)
	}
	return sum
}

// after is the index behind all calls whose tag is not larger.
func (l *line) after(tag int64) int {
	at, _ := slices.BinarySearchFunc(l.places, tag, func(p *Place, tag int64) int {
		if p.tag <= tag {
			return -1
		}
		return 1
	})
	return at
}

// join adds p, for a call that takes such a part of the limits (see whole).
func (l *line) join(p *Place, c *Call, part int64) {
	if l.teams == nil {
		l.teams = map[string]inTurn{}
	}
	p.team = c.Via.Team
	p.below = c.Below
	p.tag = l.tagOf(p.team)
	p.part = max(1, part/c.Via.Weight.Thousandths())
	l.teams[p.team] = inTurn{p.tag + p.part, l.teams[p.team].calls + 1}
	at := l.after(p.tag)
	if first := l.behind(c); first >= 0 { // those wait for one turn more
		at = first
		p.tag = l.places[first].tag
		for _, o := range l.places[first:] {
			if c.passes(o) {
				o.tag += p.part
			}
		}
	}
	l.places = slices.Insert(l.places, at, p)
	l.cost = l.cost.Plus(p.cost, 1)
	l.sort()
}

// passes reports whether a call that joins goes before a place, because of its priority.
func (c *Call) passes(p *Place) bool { return p.team == c.Via.Team && p.below > c.Below }

// behind is the index of the first place that a call passes; -1 if there is none.
func (l *line) behind(c *Call) int { return slices.IndexFunc(l.places, c.passes) }

// leave removes p; served says that it goes.
func (l *line) leave(p *Place, served bool) {
	i := slices.Index(l.places, p)
	l.places = slices.Delete(l.places, i, i+1)
	l.cost = l.cost.Plus(p.cost, -1)
	if len(l.places) == 0 {
		l.virtual = 0
		l.teams = nil
		return
	}
	turn := l.teams[p.team]
	turn.calls--
	if served {
		l.virtual = max(l.virtual, p.tag)
	} else {
		turn.next -= p.part
		l.moveUp(p, i)
	}
	l.teams[p.team] = turn
}

// moveUp gives the team's calls from index at the turns of those before them, after p has left
// without using its own. Else a team would pay for calls that never go.
func (l *line) moveUp(p *Place, at int) {
	for _, o := range l.places[at:] {
		if o.team == p.team {
			o.tag -= p.part
		}
	}
	l.sort()
}

func (l *line) sort() {
	byTag := func(a, b *Place) int { return cmp.Compare(a.tag, b.tag) }
	if !slices.IsSortedFunc(l.places, byTag) {
		slices.SortStableFunc(l.places, byTag)
	}
}

// resize changes the cost of p.
func (l *line) resize(p *Place, c Cost) {
	l.cost = l.cost.Plus(p.cost, -1).Plus(c, 1)
	p.cost = c
}

// whole is all of a limit, where the line counts parts of limits.
const whole = int64(1) << 40

// part is the part of the limits that a call takes: of the limit of which it takes most.
func (s *Set) part(c Cost) int64 {
	part := int64(1)
	for k, limit := range s.limits {
		if limit > 0 {
			part = max(part, int64(float64(whole)/float64(limit)*float64(s.Amount(Axis(k), c))))
		}
	}
	return part
}
