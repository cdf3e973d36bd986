package limits

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// oracle is a Set that remembers every booking, and adds them up whenever it is asked.
type oracle struct {
	now     time.Time
	limits  [Axes]int64
	books   [Kinds]*naive // nil = no such limit
	running int64
	line    []waiting
	// Grants, if the set is shared.
	shared, alone bool
	until         time.Time
	grants        [Axes]int64
	others        [Axes]int64
}

// naive is a rolling limit: amounts by slots of half a second, and what is held.
type naive struct {
	epoch time.Time
	slots map[int64]int64
	held  int64
	owed  int64 // used beyond the limit, and not booked
	rest  int64 // drained of it beside whole units
	under int64 // the least limit under which any of it came to be owed
}

const slotLength = escrow.Window / shape.Slots

func (n *naive) slot(now time.Time) int64 { return int64(now.Sub(n.epoch) / slotLength) }

func (n *naive) used(now time.Time) int64 { return n.booked(n.slot(now)) + n.held + n.owed }

// booked is what is booked in the minute up to a slot.
func (n *naive) booked(until int64) (sum int64) {
	for slot, amount := range n.slots {
		if slot >= until-shape.Slots {
			sum += amount
		}
	}
	return sum
}

// drain drains at the end of each slot between two times what a limit has beside what is booked.
func (n *naive) drain(from, to time.Time, limit int64) {
	for slot := n.slot(from); slot < n.slot(to) && n.owed > 0 && limit > 0; slot++ {
		n.rest += max(0, limit-n.booked(slot))
		n.owed -= min(n.owed, n.rest/shape.Slots)
		n.rest %= shape.Slots
	}
}

// correct changes a booking: more than the limit is owed, and a refund has what is owed booked.
func (n *naive) correct(now time.Time, slot, by, limit int64) {
	current := n.slot(now)
	switch {
	case by > 0:
		if n.owed == 0 {
			n.rest = 0
			n.under = limit
		}
		n.under = min(n.under, limit)
		fits := min(by, max(0, limit-n.booked(current)-n.owed))
		n.slots[current] += fits
		n.owed += by - fits
	case slot >= current-shape.Slots:
		n.slots[slot] += by
		n.bookOwed(current, -by, limit)
	}
}

// raise books what is owed as more of a limit may be used here.
func (n *naive) raise(now time.Time, limit int64) {
	if limit > n.under {
		n.bookOwed(n.slot(now), n.owed, limit)
		n.under = limit
	}
}

// bookOwed books up to an amount of what is owed, so far as a limit has room for it.
func (n *naive) bookOwed(slot, most, limit int64) {
	fits := max(0, min(n.owed, most, limit-n.booked(slot)-n.held))
	n.slots[slot] += fits
	n.owed -= fits
}

// bound is how many calls may wait in line.
const bound = 6

type waiting struct {
	place *Place
	cost  Cost // as asked for
}

// booking is what a call holds, to the oracle.
type booking struct {
	cost  Cost
	books [Kinds]*naive
	slot  [Kinds]int64
	held  bool
}

// on is what a call takes of an axis that is no window's.
func on(c Cost, k Axis) int64 {
	if k == Concurrency {
		return 1
	}
	return c[k]
}

// plain are the axes without windows.
var plain = []Axis{Requests, Tokens, Input, Output, Concurrency}

func (o *oracle) clip(c Cost) Cost {
	for k := range c {
		if o.limits[k] > 0 {
			c[k] = min(c[k], o.limits[k])
		}
	}
	return c
}

// usable is what may be used here of a limit.
func (o *oracle) usable(k Axis) int64 {
	switch {
	case !o.shared || o.alone:
		return o.limits[k]
	case !o.until.IsZero() && !o.now.Before(o.until):
		return 0
	}
	return min(o.limits[k], o.grants[k])
}

func (o *oracle) usedHere(k Axis) int64 {
	switch {
	case k == Concurrency:
		return o.running
	case o.books[k] == nil:
		return 0
	}
	return o.books[k].used(o.now)
}

func (o *oracle) fits(c Cost) bool {
	for _, k := range plain {
		if o.limits[k] > 0 && o.usedHere(k)+on(c, k) > o.usable(k) {
			return false
		}
	}
	return true
}

// coming reports whether the whole limits have room for c and for all who wait.
func (o *oracle) coming(c Cost) bool {
	if !o.shared || o.alone {
		return false
	}
	for _, w := range o.line {
		c = c.Plus(o.clip(w.cost), 1)
	}
	for k := range Axis(Kinds) {
		if o.limits[k] > 0 && o.usedHere(k)+o.others[k]+c[k] > o.limits[k] {
			return false
		}
	}
	return o.limits[Concurrency] == 0 || o.running+o.others[Concurrency]+int64(len(o.line)) < o.limits[Concurrency]
}

// full reports whether a team may have no further call in line.
func (o *oracle) full(team string) bool {
	left := bound - len(o.line)
	for _, w := range o.line {
		if w.place.team == team {
			left--
		}
	}
	return left <= 0
}

func (o *oracle) book(c Cost) *booking {
	b := &booking{cost: c, books: o.books}
	o.running++
	for k, n := range o.books {
		if n != nil {
			b.slot[k] = n.slot(o.now)
			n.slots[b.slot[k]] += c[k]
		}
	}
	return b
}

func (o *oracle) suspend(b *booking) {
	b.held = true
	for k, n := range b.books {
		if n == nil {
			continue
		}
		n.held += b.cost[k]
		n.correct(o.now, b.slot[k], -b.cost[k], o.usable(Axis(k)))
	}
}

func (o *oracle) resume(b *booking) {
	b.held = false
	for k, n := range b.books {
		if n != nil {
			n.held -= b.cost[k]
			b.slot[k] = n.slot(o.now)
			n.slots[b.slot[k]] += b.cost[k]
		}
	}
}

func (o *oracle) settle(b *booking, actual Cost) {
	if b.held {
		o.resume(b)
	}
	o.running--
	for k, n := range b.books {
		if n != nil {
			n.correct(o.now, b.slot[k], actual[k]-b.cost[k], o.usable(Axis(k)))
		}
	}
}

// machine drives a Set and an oracle through the same steps.
type machine struct {
	*rapid.T
	set   *Set
	o     *oracle
	holds []Hold
	books []*booking
}

// Whatever happens to a Set, it has counted, let go, and kept waiting like one that remembers every
// booking and adds them up.
func TestSet_CountsLikeTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := rapid.Bool().Draw(t, "shared")
		m := &machine{T: t, set: New(shared, nil), o: &oracle{now: time.Unix(1_000_000, 0), shared: shared}}
		m.configure()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			m.step()
			m.check()
		}
	})
}

func (m *machine) step() {
	steps := []func(){m.pass, m.offer, m.offer, m.settle, m.move, m.take, m.quit, m.configure}
	if m.o.shared {
		steps = append(steps, m.grant, m.grant, m.alone, m.admit)
	}
	steps[rapid.IntRange(0, len(steps)-1).Draw(m.T, "step")]()
	for k, n := range m.o.books {
		if n != nil {
			n.raise(m.o.now, m.o.usable(Axis(k)))
		}
	}
}

func (m *machine) cost() (c Cost) {
	for k := range c {
		c[k] = rapid.Int64Range(0, 40).Draw(m.T, "cost")
	}
	return c
}

func (m *machine) pass() {
	next := m.o.now.Add(time.Duration(rapid.SampledFrom([]int{1, 100, 700, 20_000, 70_000, 500_000}).Draw(m.T, "ms")) * time.Millisecond)
	for k, n := range m.o.books {
		if n != nil {
			n.drain(m.o.now, next, m.o.usable(Axis(k)))
		}
	}
	m.o.now = next
	m.set.Advance(m.o.now)
	if m.o.shared && !m.o.alone && !m.o.until.IsZero() && !m.o.now.Before(m.o.until) {
		m.o.until = time.Time{}
		m.o.grants = [Axes]int64{}
		m.o.others = [Axes]int64{}
	}
}

func (m *machine) configure() {
	var limits [Axes]int64
	for _, k := range plain {
		limits[k] = rapid.SampledFrom([]int64{0, 1, 5, 30, 100}).Draw(m.T, "limit")
		switch {
		case k == Concurrency:
		case limits[k] == 0:
			m.o.books[k] = nil
		case m.o.books[k] == nil:
			m.o.books[k] = &naive{epoch: m.o.now, slots: map[int64]int64{}}
		}
		if limits[k] == 0 && !m.o.alone {
			m.o.grants[k] = 0
			m.o.others[k] = 0
		}
	}
	m.o.limits = limits
	m.set.Configure(m.o.now, Limits{Minute: Cost(limits[:Kinds]), Concurrency: limits[Concurrency]}, bound)
	m.set.Advance(m.o.now)
}

func (m *machine) offer() {
	call := Call{
		Cost:    m.cost(),
		Via:     Via{Team: rapid.SampledFrom([]string{"x", "y"}).Draw(m.T, "team"), Weight: 1, Shared: true},
		MaxWait: rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(m.T, "max wait"),
	}
	cost := m.o.clip(call.Cost)
	fits := m.o.fits(cost) && len(m.o.line) == 0
	coming := m.o.coming(cost)
	f := m.set.Forecast(call)
	var hold Hold
	a := m.set.Offer(call, &hold)
	if (a.Verdict == Admitted) != fits || a.Verdict != f.Answer.Verdict {
		m.Fatalf("%v is offered: verdict %d, foretold %d; to the oracle it fits: %t", call.Cost, a.Verdict, f.Answer.Verdict, fits)
	}
	if fits {
		m.add(hold, cost)
		return
	}
	if a.Coming != coming {
		m.Fatalf("%v is offered: coming %t, want %t", call.Cost, a.Coming, coming)
	}
	full := m.o.full(call.Via.Team)
	late := !coming && (call.MaxWait <= 0 || f.Rolling > call.MaxWait)
	if a.Lack.Full != full || (a.Verdict == Refused) != (full || late) {
		m.Fatalf("it may wait %v, the rolling limits take %v: verdict %d, full %t, want %t", call.MaxWait, f.Rolling, a.Verdict, a.Lack.Full, full)
	}
	if a.Verdict == MayWait {
		p := &Place{}
		m.set.Join(p, call)
		m.o.line = append(m.o.line, waiting{p, call.Cost})
	}
}

func (m *machine) add(h Hold, c Cost) {
	m.holds = append(m.holds, h)
	m.books = append(m.books, m.o.book(c))
}

func (m *machine) settle() {
	if len(m.holds) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.holds)-1).Draw(m.T, "call")
	actual := m.cost()
	m.set.Settle(&m.holds[i], actual, time.Duration(rapid.IntRange(0, 9).Draw(m.T, "s"))*time.Second)
	m.o.settle(m.books[i], actual)
	m.holds = slices.Delete(m.holds, i, i+1)
	m.books = slices.Delete(m.books, i, i+1)
}

// move suspends a call, or resumes it.
func (m *machine) move() {
	if len(m.holds) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.holds)-1).Draw(m.T, "call")
	if m.holds[i].Booked() {
		m.set.Suspend(&m.holds[i])
		m.o.suspend(m.books[i])
		return
	}
	m.set.Resume(&m.holds[i])
	m.o.resume(m.books[i])
}

func (m *machine) take() {
	first := m.set.Turn()
	if first == nil {
		return
	}
	p := first
	if rapid.Bool().Draw(m.T, "another") {
		p = m.o.line[rapid.IntRange(0, len(m.o.line)-1).Draw(m.T, "place")].place
	}
	fits := m.o.fits(p.Cost())
	h, ok := m.set.Take(p)
	if ok != (fits && p == first) {
		m.Fatalf("one in line, first %t, fits %t: it goes: %t", p == first, fits, ok)
	}
	if ok {
		m.add(h, p.Cost())
		m.gone(p)
	}
}

func (m *machine) quit() {
	if len(m.o.line) > 0 {
		p := m.o.line[rapid.IntRange(0, len(m.o.line)-1).Draw(m.T, "place")].place
		m.set.Quit(p, false)
		m.gone(p)
	}
}

func (m *machine) gone(p *Place) {
	m.o.line = slices.DeleteFunc(m.o.line, func(w waiting) bool { return w.place == p })
}

func (m *machine) grant() {
	m.o.alone = false
	m.o.until = m.o.now.Add(2500 * time.Millisecond)
	m.set.Renew(m.o.until)
	for k, limit := range m.o.limits {
		m.o.grants[k] = 0
		m.o.others[k] = 0
		if limit > 0 {
			m.o.grants[k] = rapid.Int64Range(0, limit).Draw(m.T, "grant")
			m.o.others[k] = rapid.Int64Range(0, limit).Draw(m.T, "others")
			m.set.Allow(Axis(k), m.o.grants[k])
			m.set.Elsewhere(Axis(k), m.o.others[k])
		}
	}
}

func (m *machine) alone() {
	if m.set.Alone() != !m.o.now.Before(m.o.until) {
		m.Fatalf("alone at %v, with grants until %v", m.o.now, m.o.until)
	}
	m.o.alone = m.o.alone || !m.o.now.Before(m.o.until)
}

// admit books a call that another process let in.
func (m *machine) admit() {
	cost := m.o.clip(m.cost())
	for _, k := range plain {
		m.o.grants[k] += on(cost, k)
		if m.o.limits[k] == 0 && !m.o.alone {
			m.o.grants[k] = 0
		}
	}
	m.add(m.set.Admit(cost), cost)
}

func (m *machine) check() {
	for _, k := range plain {
		if got, want := m.set.UsedHere(k), m.o.usedHere(k); got != want {
			m.Fatalf("%v: %d is used, want %d", k, got, want)
		}
		if m.o.shared && m.o.limits[k] > 0 && m.set.Granted(k) != m.o.grants[k] {
			m.Fatalf("%v: %d is granted, want %d", k, m.set.Granted(k), m.o.grants[k])
		}
		others := m.o.others[k]
		if !m.o.shared || m.o.alone {
			others = 0
		}
		if got, want := m.set.Used(k), m.o.usedHere(k)+others; m.o.limits[k] > 0 && got != want {
			m.Fatalf("%v: %d is used in all, want %d", k, got, want)
		}
	}
	calls, cost := m.set.InLine()
	var sum Cost
	for _, w := range m.o.line {
		sum = sum.Plus(m.o.clip(w.cost), 1)
	}
	if calls != len(m.o.line) || cost != sum {
		m.Fatalf("%d wait for %v, want %d for %v", calls, cost, len(m.o.line), sum)
	}
	if len(m.holds) == 0 && m.set.Due() != (Cost{}) {
		m.Fatalf("nothing is held, and %v is due", m.set.Due())
	}
	if m.set.Idle() != (len(m.holds) == 0 && calls == 0) {
		m.Fatalf("idle %t with %d calls and %d in line", m.set.Idle(), len(m.holds), calls)
	}
}
