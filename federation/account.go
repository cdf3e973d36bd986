package federation

import (
	"maps"
	"slices"
)

// Account is what the store of a pool keeps: who has used what, who may use what, and
// how much each gets. It is pure, and serves as it is where the store can run Go; where
// it cannot, the same steps run there (package federation/redis), and the conformance
// suite compares the two. It is not safe for concurrent use.
type Account struct {
	Rules Rules
	// Incarnation is of the server that remembers: another one may have lost writes.
	Incarnation string
	// Epoch numbers the memories; Born is when this one began, and Learning until when
	// nothing is granted of it.
	Epoch, Born, Learning int64
	// Now is the latest time that was seen. It never runs backwards.
	Now int64
	// Booked is the sum over all nodes, those that are no more included.
	Booked  book
	Members map[string]*Member
	// Fill is what an idle pool may hand out at once.
	Fill [axes]Fill
	// Level is the water level as of the last beat.
	Level float64
}

// Member is what is known of a node.
type Member struct {
	Region, Instance string
	Seq              int64
	// Sent and Seen are when its last beat was sent, at the earliest, and received.
	Sent, Seen             int64
	Limits, Burst, Reserve Amounts
	Booked                 book
	Held                   Amounts
	// Of the two envelopes it uses one, and which is not known: what it held, until it
	// has the answer, or what it was granted.
	Holding, Grant   [axes]Envelope
	Waiting, Largest Amounts
	Curve            []Point
	Demands          map[string]int64
	Last             Reply
}

// Options of NewAccount.
type Options struct {
	// Incarnation is of the server that remembers.
	Incarnation string
	// Fresh says that nobody can have used anything before: then there is nothing to
	// learn.
	Fresh bool
}

// NewAccount begins an account at now.
func NewAccount(r Rules, now int64, o Options) *Account {
	a := &Account{Rules: r, Incarnation: o.Incarnation, Epoch: 1, Born: now, Learning: now, Now: now, Members: map[string]*Member{}}
	if !o.Fresh {
		a.Learning = now + r.window() + r.slot()
	}
	return a
}

// lost begins a new memory, because the old one has holes.
func (a *Account) lost(incarnation string) {
	fresh := NewAccount(a.Rules, a.Now, Options{Incarnation: incarnation})
	fresh.Epoch = a.Epoch + 1
	*a = *fresh
}

// Beat books what a node tells at now, and answers. incarnation is of the server that
// remembers; expect is how many nodes have to have told all for grants to be resumed
// after a loss before a Window has passed, 0 for never.
func (a *Account) Beat(now int64, incarnation string, expect int, b *Beat) Reply {
	a.Now = max(a.Now, now)
	m := a.Members[b.Node]
	if incarnation != a.Incarnation || m != nil && m.Instance == b.Instance && m.Seq < b.Acked {
		a.lost(incarnation)
		m = nil
	}
	switch {
	case m != nil && m.Instance != b.Instance && !b.Join:
		return a.say(b, Fenced)
	case m != nil && m.Instance == b.Instance && m.Seq == b.Seq:
		return m.Last // the beat is there twice
	case m != nil && m.Instance == b.Instance && m.Seq > b.Seq:
		return a.say(b, Stale)
	case !b.Full && (m == nil || m.Instance != b.Instance):
		return a.say(b, Resend)
	}
	a.age()
	if m != nil && m.Instance != b.Instance {
		a.retire(m)
		m = nil
	}
	if m == nil {
		m = &Member{Instance: b.Instance}
		a.Members[b.Node] = m
	}
	a.book(m, b)
	r := a.say(b, Granted)
	if a.learns(expect) {
		r.Status, r.Until = Learning, a.Learning
	} else {
		r.Grant = a.grant(m)
		r.Level = a.Level
	}
	r.Totals = a.totals(b)
	m.Grant, m.Last = r.Grant, r
	return r
}

func (a *Account) say(b *Beat, s Status) Reply {
	return Reply{Status: s, Instance: b.Instance, Seq: b.Seq, Epoch: a.Epoch, Now: a.Now}
}

// learns reports whether it is too early to grant anything.
func (a *Account) learns(expect int) bool {
	if expect > 0 && len(a.Members) >= expect {
		a.Learning = min(a.Learning, a.Now)
	}
	return a.Now < a.Learning
}

// slotOf is the slot of a time.
func (a *Account) slotOf(t int64) int64 { return floorDiv(t, a.Rules.slot()) }

// age drops what has left the Window, and who has nothing left in it.
func (a *Account) age() {
	first := a.slotOf(a.Now) - a.Rules.Slots
	a.Booked.since(first)
	for _, name := range a.names() {
		m := a.Members[name]
		m.Booked.since(first)
		if a.Now-m.Seen > a.Rules.window()+a.Rules.ttl()+a.Rules.slot() && len(m.Booked) == 0 {
			a.retire(m) // nothing but what it held
			delete(a.Members, name)
		}
	}
}

// names are those of the members, in order, so that the same beats have the same
// answers.
func (a *Account) names() []string { return slices.Sorted(maps.Keys(a.Members)) }

// retire books all that a node that is no more may have used: what it held last, and
// might have been granted, as late as it can have used it.
func (a *Account) retire(m *Member) {
	var most Amounts
	for k := range most {
		most[k] = m.bound(a.Rules, k, a.Rules.ttl()) + m.Held[k]
	}
	a.Booked.add(max(a.slotOf(m.expiry(a.Rules)), a.slotOf(a.Now)-a.Rules.Slots), most)
}

// book takes in what a node tells.
func (a *Account) book(m *Member, b *Beat) {
	first := a.slotOf(a.Now) - a.Rules.Slots
	var more Amounts
	change := func(slot int64, x Amounts) {
		d := minus(x, m.Booked.at(slot))
		if slot < first || d == (Amounts{}) {
			return
		}
		m.Booked.set(slot, x)
		a.Booked.add(slot, d)
		more = plus(more, d)
	}
	if b.Full {
		told := map[int64]bool{}
		for _, x := range b.Booked {
			told[x.Slot] = true
		}
		for _, x := range slices.Clone(m.Booked) {
			if !told[x.Slot] {
				change(x.Slot, Amounts{})
			}
		}
	}
	for _, x := range b.Booked {
		change(x.Slot, x.Used)
	}
	more = plus(more, minus(b.Held, m.Held))

	m.Region, m.Seq, m.Seen, m.Sent = b.Region, b.Seq, a.Now, min(b.Sent, a.Now)
	m.Limits, m.Burst, m.Reserve = b.Limits, b.Burst, b.Reserve
	m.Held, m.Holding, m.Grant = b.Held, b.Holding, [axes]Envelope{}
	m.Waiting, m.Largest, m.Curve = b.Waiting, b.Largest, b.Curve
	m.Demands = make(map[string]int64, len(b.Demands))
	for _, d := range b.Demands {
		m.Demands[d.Path] = d.Rate
	}
	a.fill(more)
}

// totals are the demands of all nodes at what a beat names.
func (a *Account) totals(b *Beat) []Demand {
	sums := map[string]int64{}
	for _, d := range b.Demands {
		sums[d.Path] = 0
	}
	for _, m := range a.Members {
		if !a.live(m) {
			continue
		}
		for path, rate := range m.Demands {
			if _, named := sums[path]; named || below(path, b.Under) {
				sums[path] += rate
			}
		}
	}
	out := make([]Demand, 0, len(sums))
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, Demand{path, sums[path]})
	}
	return out
}

// live reports whether a node is heard of.
func (a *Account) live(m *Member) bool { return a.Now-m.Seen <= a.Rules.silent() }
