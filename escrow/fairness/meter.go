package fairness

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Meter measures one pool. Its owner tells it once a second what the scheduler's
// counters say.
type Meter struct {
	tree       *Tree
	leaves     []*Leaf
	guaranteed []float64
	floors     []floor

	start, last time.Time
	slot        int64
	mark        int64   // of the calls that were dispatched since the last step: the slot in which it was
	bank        float64 // handed out, and not served by the fluid server yet

	// Scratch, by leaf.
	wants, given, later []float64
}

// floor is the virtual cost that a node is due by its floor, and has not taken.
type floor struct {
	node    int
	minute  float64 // a Window
	balance float64
}

// Floor names a node's.
type Floor struct {
	Node    int   // of the Tree
	Virtual int64 // cost a Window
}

// NewMeter returns a meter of a pool without leaves.
func NewMeter(now time.Time) *Meter { return &Meter{tree: NewTree(), start: now, last: now} }

// Plant says who there is from now on: a tree, its leaves in their order, and the floors
// of its nodes.
func (m *Meter) Plant(t *Tree, leaves []*Leaf, floors []Floor) {
	m.tree = t
	m.leaves = leaves
	m.floors = nil
	for _, f := range floors {
		m.floors = append(m.floors, floor{node: f.Node, minute: float64(f.Virtual)})
	}
	n := len(leaves)
	m.guaranteed = make([]float64, n)
	t.Guaranteed(m.guaranteed)
	m.wants = make([]float64, n)
	m.given = make([]float64, n)
	m.later = make([]float64, n)
	m.balance()
}

// NewLeaf is a leaf whose counters stand there now: earlier counts are left out.
func NewLeaf(a escrow.Account) *Leaf { return &Leaf{was: countersOf(&a)} }

// Sample holds the readings of the scheduler.
type Sample struct {
	Leaves []escrow.Account // in the order of Plant
	// Since is when the pool began to be used, if it was not before; else zero.
	Since time.Time
	// Part is how much of the limit's rate is handed out, and Burst the amount that an idle pool may
	// hand out at once.
	Part  float64
	Burst time.Duration
	TPM   int64
}

const minute = float64(escrow.WholeMinute)

// Step adds the readings since the last one, and brings the fluid server there.
func (m *Meter) Step(now time.Time, s Sample) {
	if s.Since.After(m.last) {
		m.last = s.Since
	}
	dt := min(now.Sub(m.last), window).Seconds()
	if dt <= 0 {
		return
	}
	m.mark = Mark(m.last.Sub(m.start))
	m.last = now
	for slot := int64(m.at() / slotLength); m.slot < slot; {
		m.slot = max(m.slot+1, slot-slots)
		for _, l := range m.leaves {
			l.turn(m.slot)
		}
	}
	m.mark = max(m.mark, m.slot-slots+1) // of a stretch longer than a minute
	handed, back := m.ask(s)
	m.takeBack()
	m.serve(dt, s, m.bank+handed+back, back)
	m.balance()
	m.lend(dt, s)
}

// at is how far into a slot, and which, the last instant is that was taken in.
func (m *Meter) at() time.Duration { return m.last.Sub(m.start) - 1 }

// ask works out the demand of each leaf on the fluid server, and returns the amount that the pool has
// handed out, and how much of its service the fluid server takes back.
func (m *Meter) ask(s Sample) (handed, back float64) {
	for i, l := range m.leaves {
		a := &s.Leaves[i]
		received := float64(a.Received-l.was.received) + l.refund(m.mark, a)
		turned := float64(a.Turned - l.was.turned)
		l.was = countersOf(a)
		l.waiting = float64(a.Waiting)
		l.usual = float64(a.Usual)
		if received != 0 || turned != 0 {
			l.cellAt(m.mark).add(cell{received: received, turned: turned}, 1)
		}
		handed += received
		want, turned := l.want(received, turned, float64(a.Kept))
		l.lag -= received
		if want < 0 { // calls took less than was thought, and had been served by then
			back -= want
			l.entitle(m.mark, want)
			l.lag += want
			want = 0
		}
		m.wants[i] = want + turned
	}
	return handed, back
}

// want is the demand of a leaf on the fluid server, and besides that of the calls that went away: all but
// the part served before. But a waiting call wants to be served as long as it waits:
// who is kept waiting may have more calls that it makes only when these are served.
func (l *Leaf) want(received, turned, kept float64) (stays, left float64) {
	before := min(l.lag, max(0, received)+kept)
	return received + l.waiting - before, turned - min(max(0, l.lag-before), turned)
}

// entitle counts the service of the fluid server.
func (l *Leaf) entitle(slot int64, amount float64) {
	if amount != 0 {
		l.cellAt(slot).entitled += amount
	}
}

// serve shares out the amount there is: up to the limit's rate for good, beyond that
// provisionally, and more than an idle pool can be ahead for good again.
func (m *Meter) serve(dt float64, s Sample, there, back float64) {
	second := minute / window.Seconds()
	sure := max(0, min(there, second*s.Part*dt+back), there-second*max(1, s.Burst.Seconds()))
	m.raiseFloors(dt * s.Part)
	m.tree.MaxMin(sure, m.wants, m.given)
	m.payFloors()
	for i, x := range m.given {
		m.wants[i] -= x
	}
	if rest := there - sure; rest > 0 {
		m.tree.MaxMin(rest, m.wants, m.later)
	} else {
		clear(m.later)
	}
	for i, l := range m.leaves {
		l.lag += m.given[i]
		l.entitle(m.mark, m.given[i]+m.later[i]-l.ahead)
		l.ahead = m.later[i]
	}
}

// floorMemory is for how many seconds a floor that could not be kept is made good, as
// the scheduler does.
const floorMemory = 10

// raiseFloors adds up the floors of nodes that want something.
func (m *Meter) raiseFloors(dt float64) {
	for i := range m.floors {
		f := &m.floors[i]
		second := f.minute / window.Seconds()
		f.balance = min(f.balance+second*dt, second*max(dt, floorMemory))
		if m.tree.Sum(f.node, m.wants) == 0 {
			f.balance = 0
		}
		m.tree.Floor(f.node, f.balance)
	}
}

// payFloors takes off the service of the nodes.
func (m *Meter) payFloors() {
	for i := range m.floors {
		f := &m.floors[i]
		f.balance = max(0, f.balance-m.tree.Sum(f.node, m.given))
		m.tree.Floor(f.node, 0)
	}
}

// balance forgets the service of the fluid server to calls that have gone away since: it went to
// those who have really got more than it gave them.
func (m *Meter) balance() {
	gone := 0.0
	more := 0.0
	for _, l := range m.leaves {
		if over := l.lag - l.waiting; over > 0 {
			gone += over
			l.lag -= over
		}
		more += max(0, -l.lag)
	}
	m.bank = 0
	for _, l := range m.leaves {
		if l.lag < 0 {
			l.lag *= max(0, 1-gone/more)
		}
		if math.Abs(l.lag) < 1 { // what rounding leaves
			l.lag = 0
		}
		m.bank -= l.lag
	}
}
