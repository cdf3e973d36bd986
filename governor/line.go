package governor

import (
	"cmp"
	"slices"
	"time"
)

// line is the calls that wait for a quota, the next one first. Calls of one tenant or team go in
// the order of their arrival. Where several teams wait for a limit of what they belong to, their
// weights decide, by start-time fair queueing as in the pools (see package escrow), but over few
// queues and without a tree. The quota's lock guards it.
type line struct {
	calls []*inLine
	cost  ownCost // sum over calls
	// While any call waits: the tag of the call that was served last, and each team's turn.
	virtual int64
	teams   map[*tenant]inTurn
}

// inTurn is the tag at which a team's next call starts, and how many of its calls wait.
type inTurn struct {
	next  int64
	calls int
}

// inLine is a call that waits.
type inLine struct {
	waiter
	asked, cost ownCost   // cost is asked, cut to the limits
	least       time.Time // it may wait until then in any case
	asks        bool      // the store lets it in, and nothing else
	asking      bool      // it is asking the store now
	via         *tenant
	tag, part   int64 // its start tag, and by how much it moves its team's next
}

func (l *line) first() *inLine {
	if len(l.calls) == 0 {
		return nil
	}
	return l.calls[0]
}

// wakeNext lets the first call look again that is not asking already.
func (l *line) wakeNext() {
	for _, w := range l.calls {
		if !w.asking {
			w.wake()
			return
		}
	}
}

// wanting is the cost and number of the calls that wait for a part.
func (l *line) wanting() (cost ownCost, calls int64) {
	for _, w := range l.calls {
		if !w.asks {
			cost = cost.plus(w.cost, 1)
			calls = calls + 1
		}
	}
	return cost, calls
}

// tagOf is the tag that a call arriving by k would have.
func (l *line) tagOf(k *link) int64 { return max(l.virtual, l.teams[k.via].next) }

// ahead is the cost of all that would go before a call with this tag.
func (l *line) ahead(tag int64) ownCost {
	n := len(l.calls)
	if n == 0 || l.calls[n-1].tag <= tag {
		return l.cost
	}
	var sum ownCost
	for _, w := range l.calls[:l.after(tag)] {
		sum = sum.plus(w.cost, 1)
	}
	return sum
}

// after is the index behind all calls whose tag is not larger.
func (l *line) after(tag int64) int {
	at, _ := slices.BinarySearchFunc(l.calls, tag, func(w *inLine, tag int64) int {
		if w.tag <= tag {
			return -1
		}
		return 1
	})
	return at
}

// join adds w, which arrives by k and takes such a part of the limits (see whole).
func (l *line) join(w *inLine, k *link, part int64) {
	if l.teams == nil {
		l.teams = map[*tenant]inTurn{}
	}
	w.via, w.tag, w.part = k.via, l.tagOf(k), max(1, part/int64(k.weight))
	l.teams[k.via] = inTurn{w.tag + w.part, l.teams[k.via].calls + 1}
	l.calls = slices.Insert(l.calls, l.after(w.tag), w)
	l.cost = l.cost.plus(w.cost, 1)
}

// leave removes w; served says that it goes. Then whoever is first may fit at once.
func (l *line) leave(w *inLine, served bool) {
	i := slices.Index(l.calls, w)
	l.calls = slices.Delete(l.calls, i, i+1)
	l.cost = l.cost.plus(w.cost, -1)
	if len(l.calls) == 0 {
		l.virtual = 0
		l.teams = nil
		return
	}
	turn := l.teams[w.via]
	turn.calls--
	if served {
		l.virtual = max(l.virtual, w.tag)
	} else {
		turn.next -= w.part
		l.moveUp(w, i)
	}
	l.teams[w.via] = turn
	l.wakeNext()
}

// moveUp gives the team's calls from index at the turns of those before them, after w has left
// without using its own. Else a team would pay for calls that never go.
func (l *line) moveUp(w *inLine, at int) {
	for _, o := range l.calls[at:] {
		if o.via == w.via {
			o.tag -= w.part
		}
	}
	if byTag := func(a, b *inLine) int { return cmp.Compare(a.tag, b.tag) }; !slices.IsSortedFunc(l.calls, byTag) {
		slices.SortStableFunc(l.calls, byTag)
	}
}

// resize changes the cost of w.
func (l *line) resize(w *inLine, c ownCost) {
	l.cost = l.cost.plus(w.cost, -1).plus(c, 1)
	w.cost = c
}

func (c ownCost) plus(o ownCost, by int64) ownCost {
	for k := range c {
		c[k] += by * o[k]
	}
	return c
}

// whole is all of a limit, where the line counts parts of limits.
const whole = int64(1) << 40

// partLocked is the part of the limits that a call takes: of the limit of which it takes most.
func (q *quota) partLocked(c ownCost) int64 {
	part := int64(1)
	if q.concurrency > 0 {
		part = max(part, whole/q.concurrency)
	}
	for k, l := range q.ledgers {
		if l != nil {
			part = max(part, int64(float64(whole)/float64(q.limits[k])*float64(c[k])))
		}
	}
	return part
}
