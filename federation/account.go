package federation

import (
	"maps"
	"math"
	"slices"
)

// Account is the state that a store keeps of a pool: the usage of each node, its grants, and its share. It is pure, and serves as it is where the store can run Go; elsewhere the same steps are
// written anew (package federation/redis), and the conformance suite compares the two. It is not
// safe for concurrent use. Times are milliseconds of the store's clock.
type Account struct {
	Rules Rules
	// Incarnation names the server that remembers. Another one may have lost writes.
	Incarnation string
	// Epoch numbers the memories. Born is when this one began, and Learning until when nothing is
	// granted from it.
	Epoch, Born, Learning int64
	// Lost says that some node knows of an earlier memory, and Fresh that there is none that counts, as far as an operator
	// knows (Declare).
	Lost, Fresh bool
	// Turn is how many beats were booked.
	Turn int64
	// Before is the latest that is known of the memory before, while this one is learning.
	Before *before
	// Capped are the limits as of when the account was restored. Higher ones hold only from CapEnds on: by them others may
	// have used more than was counted.
	Capped  Amounts
	CapEnds int64
	// Now is the latest time seen. It never runs backwards within one memory.
	Now int64
	// Booked is the sum over all nodes, including those that are gone.
	Booked  book
	Members map[string]*Member
	// Gone is the most that nodes that are gone may have used, in the slot in which they lost the right to
	// it. It also counts before that slot.
	Gone book
	// Fill is the amount that an idle pool may hand out at once.
	Fill [axes]Fill
	// Level is the water level as of the last beat.
	Level float64
}

// Member is the state of one node.
type Member struct {
	Region, Instance string
	Seq              int64
	// Sent is the earliest time at which its last beat can have been sent, and Seen is when that
	// was received.
	Sent, Seen             int64
	Joined, Past           int64 // see Beat
	Format                 int   // see Beat
	Address                string
	Limits, Burst, Reserve Amounts
	Booked                 book
	Held, Parts            Amounts
	Refundable             Amounts
	Copy                   *contained // while the memory is learning
	// The node uses one of these two envelopes, but which one is unknown: Holding until it has the
	// answer, then Grant.
	Holding, Grant [axes]Envelope
	Waiting, Ready Amounts
	Curve          curve
	Demands        map[string]int64
	Last           Reply
}

// maxBooked bounds the amount booked for one node in one slot, so that no sum overflows.
const maxBooked = 10 * MaxLimit

// Options of NewAccount.
type Options struct {
	// Incarnation names the server that remembers.
	Incarnation string
	// Fresh says that nobody can have used anything before, so that there is nothing to learn unless a node knows better.
	Fresh bool
}

// NewAccount begins an account at now.
func NewAccount(r Rules, now int64, o Options) *Account {
	learning := now + r.ttl() + r.window() + r.slot()
	return &Account{Rules: r, Incarnation: o.Incarnation, Epoch: max(1, now), Born: now, Learning: learning, Now: now, Members: map[string]*Member{}, Fresh: o.Fresh}
}

// lost begins a new memory, because the old one has gaps.
func (a *Account) lost(incarnation string) {
	fresh := NewAccount(a.Rules, a.Now, Options{Incarnation: incarnation})
	fresh.Epoch = max(a.Epoch+1, a.Now)
	fresh.Lost = true
	*a = *fresh
}

// Beat books a node's report at now, and answers. incarnation names the server that remembers.
// expect is how many processes run at the same time at most; 0 is unknown. After a loss, grants are
// resumed once that many processes that ran for a Window before it have told everything, or once the
// account can be restored from nodes' copies of it (Copy). Else they are resumed a Window later.
func (a *Account) Beat(now int64, incarnation string, expect int, b *Beat) Reply {
	m, r := a.receive(now, incarnation, expect, b)
	if m == nil {
		return r
	}
	if r.Status == Granted {
		r.Grant = a.grant(m)
		r.Level = a.Level
	}
	r.Totals = a.totals(b)
	r.Used = a.used()
	r.Format = a.format()
	return a.answered(m, r)
}

// receive books a node's report. It returns no member if the reply is complete.
func (a *Account) receive(now int64, incarnation string, expect int, b *Beat) (*Member, Reply) {
	if a.Now-now > a.Rules.ttl()+a.Rules.window()+a.Rules.slot() { // learning anew takes less time than waiting until then
		a.Now = now
		a.lost(incarnation)
	}
	a.Now = max(a.Now, now)
	if incarnation != a.Incarnation || a.forgot(b) {
		a.lost(incarnation)
	}
	a.Lost = a.Lost || b.Epoch != 0 && b.Epoch != a.Epoch && !(a.Fresh && b.Join) // a process that starts knows nothing newer than the operator
	a.age()
	m := a.Members[b.Node]
	known := m != nil && m.Instance == b.Instance
	switch {
	case m != nil && !known && !b.Join:
		return nil, a.say(b, Fenced)
	case known && m.Seq == b.Seq:
		return nil, m.Last // the beat arrived twice
	case known && m.Seq > b.Seq:
		return nil, a.say(b, Stale)
	case !b.Join && (b.Epoch != a.Epoch || !known && !b.Full):
		return nil, a.say(b, Resend)
	}
	if m != nil && !known {
		a.retire(m)
	}
	if !known {
		next := &Member{Instance: b.Instance}
		if m != nil {
			next.Copy = m.Copy // what that process told stays told
		}
		m = next
		a.Members[b.Node] = m
	}
	a.book(m, b)
	r := a.say(b, Granted)
	if a.learns(expect) {
		r.Status = Learning
		r.Lost = a.Lost
		r.Until = a.Learning
		if a.Before != nil {
			r.Until = min(r.Until, a.expired())
		}
	}
	return m, r
}

// used is the usage that counts against the limits now: that of all nodes in the last Window, the amounts
// that they hold, and the most that nodes that are gone may have used.
func (a *Account) used() Amounts {
	now := a.slotOf(a.Now)
	first := now - a.Rules.Slots
	expired := now + a.Rules.ttl()/a.Rules.slot() + 1
	sum := plus(a.Booked.sum(first, now), a.Gone.sum(first, expired))
	for _, m := range a.Members {
		sum = plus(sum, m.Held)
	}
	return sum
}

// format is the newest format that all members understand. One that is silent counts until it is forgotten, because it may come back.
func (a *Account) format() int {
	all := math.MaxInt
	for _, m := range a.Members {
		all = min(all, max(1, m.Format))
	}
	return all
}

// Alike reports whether all members understand exactly the Format of this release, and so answer beats as it does.
func (a *Account) Alike() bool {
	for _, m := range a.Members {
		if m.Format != Format {
			return false
		}
	}
	return true
}

// answered notes the answer to a node, and adds the digest.
func (a *Account) answered(m *Member, r Reply) Reply {
	m.Grant = r.Grant
	m.Last = r
	if r.Status == Granted {
		d := a.digest()
		r.Digest = d.encode()
	}
	return r
}

// forgot reports whether the node has had an answer, from this memory, to a later beat than the
// last one that the memory knows.
func (a *Account) forgot(b *Beat) bool {
	m := a.Members[b.Node]
	return m != nil && m.Instance == b.Instance && b.Epoch == a.Epoch && !b.Full && m.Seq < b.Acked
}

func (a *Account) say(b *Beat, s Status) Reply {
	return Reply{Status: s, Instance: b.Instance, Seq: b.Seq, Epoch: a.Epoch, Now: a.Now}
}

// learns reports whether it is too early to grant anything. Two things end that early. Either as
// many nodes as ever run at the same time have run since a Window before this memory began, and
// have told everything: then no others can have used anything in that time. What an earlier process of a
// node used it tells from its journal (restore_journal.go). Or that many run side
// by side, and none knows of an earlier memory: then this is the first one, and nothing was used
// before. The latter is wrong only if a memory was lost, and all nodes that knew it ended before
// they could say so. An operator may say so, too (Declare).
func (a *Account) learns(expect int) bool {
	if a.Now < a.Learning && a.knows(expect) {
		a.bookJournals()
		a.Learning = a.Now
	}
	if a.Now >= a.Learning {
		a.toldLate(expect)
		return false
	}
	return !a.restored(expect)
}

// knows reports whether nodes have told all usage themselves.
func (a *Account) knows(expect int) bool {
	if a.Fresh && !a.Lost {
		return true
	}
	if expect <= 0 {
		return false
	}
	told := 0
	for _, m := range a.Members {
		if a.toldFrom(m) < a.Born-a.Rules.window()-a.Rules.slot() {
			told++
		}
	}
	return told >= expect || !a.Lost && a.together() >= expect
}

// together is how many nodes are known to have run at the same time.
func (a *Account) together() int {
	most := 0
	for _, last := range a.Members {
		n := 0
		for _, m := range a.Members {
			if m.Joined <= last.Joined && last.Joined <= m.Sent {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// slotOf is the slot of a time.
func (a *Account) slotOf(t int64) int64 { return floorDiv(t, a.Rules.slot()) }

// age drops usage that has left the Window, and members that have none left in it.
func (a *Account) age() {
	first := a.slotOf(a.Now) - a.Rules.Slots
	a.Booked.since(first)
	a.Gone.since(first)
	for name, m := range a.Members {
		m.Booked.since(first)
		if a.Now-m.Seen > a.Rules.window()+a.Rules.ttl()+a.Rules.slot() && len(m.Booked) == 0 {
			delete(a.Members, name)
		}
	}
}

// names are the members' names in order, so that the same beats get the same answers.
func (a *Account) names() []string { return slices.Sorted(maps.Keys(a.Members)) }

// retire books everything that a node which is gone may have used: the grant that it was granted or held
// before that, as late as it can have used it; and the amount that belonged to no slot yet, now.
func (a *Account) retire(m *Member) {
	var most Amounts
	for k := range most {
		most[k] = m.bound(a.Rules, k, a.Rules.ttl())
	}
	expired := m.expiry(a.Rules)
	if slot := a.slotOf(expired); slot >= a.slotOf(a.Now)-a.Rules.Slots { // else it has left the Window
		a.Gone.add(slot, most)
	}
	a.Gone.add(a.slotOf(max(expired, a.Now)), m.Held)
	for _, x := range m.Booked {
		if x.Slot > a.slotOf(a.Now) && x.Slot <= m.Past { // it was used before now
			a.Booked.add(x.Slot, minus(Amounts{}, x.Used))
			a.Gone.add(x.Slot, x.Used)
		}
	}
}

// book takes in a node's report.
func (a *Account) book(m *Member, b *Beat) {
	now := a.slotOf(a.Now)
	first := now - a.Rules.Slots
	last := now + a.Rules.ahead()
	var more Amounts
	change := func(slot int64, x Amounts) {
		d := minus(x, m.Booked.at(slot))
		if slot < first || slot > last || d == (Amounts{}) {
			return
		}
		m.Booked.set(slot, x)
		a.Booked.add(slot, d)
		if slot > first+leaving {
			more = plus(more, d)
		}
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
		change(x.Slot, within(0, x.Used, maxBooked))
	}
	more = plus(more, minus(within(0, b.Held, maxBooked), m.Held))
	if b.Full { // all of it is old, and nobody was granted anything meanwhile
		more = Amounts{}
	}

	a.Turn++
	a.replace(m, b)
	a.copied(m, b.Copy)
	a.fill(more)
}

// replace takes a member's state from its beat. Its bookings stay.
func (a *Account) replace(m *Member, b *Beat) {
	m.Region = b.Region
	m.Address = b.Address
	m.Format = b.Format
	m.Seq = b.Seq
	m.Seen = a.Now
	m.Sent = min(b.Sent, a.Now)
	m.Joined = b.Joined
	if b.Join {
		m.Joined = a.Now
	}
	m.Past = min(b.Past, a.slotOf(a.Now)+a.Rules.ahead())
	m.Limits = within(0, b.Limits, MaxLimit)
	m.Burst = within(0, b.Burst, MaxLimit)
	m.Reserve = within(0, b.Reserve, MaxLimit)
	m.Held = within(0, b.Held, maxBooked)
	m.Refundable = within(0, b.Refundable, maxBooked)
	m.Parts = within(0, b.Parts, a.Rules.window())
	m.Grant = [axes]Envelope{}
	for k, e := range b.Holding {
		m.Holding[k] = e.sane(a.Rules)
	}
	m.Waiting = within(0, b.Waiting, maxBooked)
	m.Ready = within(0, b.Ready, MaxLimit)
	m.Curve = b.Curve
	m.Demands = make(map[string]int64, len(b.Demands))
	for _, d := range b.Demands {
		if d.Rate > 0 { // as nodes tell them
			m.Demands[d.Path] = d.Rate
		}
	}
}

// leaving is in how many of the oldest slots changes are ignored: usage that changes there has left the
// pool's own Window, whose slots are finer.
const leaving = 2

// totals are the demands of all nodes at the paths that a beat names.
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

// live reports whether a node is still heard of.
func (a *Account) live(m *Member) bool { return a.Now-m.Seen <= a.Rules.silent() }
