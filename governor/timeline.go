package governor

import (
	"container/heap"
	"time"
)

// timeline is the governor's time. There is one instant after the other. In each of them one thing is told (a call asks, ends, leaves, …),
// and everything that follows from it happens, including that calls go on which are woken, before the next one begins. What is set for a
// time happens at exactly that time, however late the machine is: before anything is told, what was due by then is caught up with.
//
// Where it is exact, no two instants are at the same time, and the wall clock being set makes no difference. So everything that a governor
// decides is a function of what it is told, and when, and whoever keeps that can have the same decided again, or see what another
// configuration would have decided. See Config.Recorded.
type timeline struct {
	clock  Clock // the real one
	exact  bool
	origin time.Time
	ring   func() // the alarm's function

	now    time.Time // the instant
	agenda agenda
	set    uint64    // timers set so far, to order those of the same time
	ready  []*parked // woken, in that order
	parked map[*parked]struct{}
	told   time.Time // the last instant in which something was told
	alarm  Timer     // real timer for the first entry of agenda
	armed  time.Time
}

func newTimeline(clock Clock, exact bool) *timeline {
	now := clock.Now()
	return &timeline{clock: clock, exact: exact, origin: now, now: now, parked: map[*parked]struct{}{}}
}

func (t *timeline) moveTo(now time.Time) { t.now = later(t.now, now) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// real is the time by the real clock. An exact one is the origin, plus what has passed since by the monotonic reading.
func (t *timeline) real() time.Time {
	now := t.clock.Now()
	if t.exact {
		return t.origin.Add(now.Sub(t.origin))
	}
	return now
}

// begin begins an instant in which something is told.
func (t *timeline) begin() time.Time { return t.reach(t.next()) }

// next is the time of the next instant in which something is told. It is to be begun.
func (t *timeline) next() time.Time {
	now := t.real()
	if t.exact {
		t.told = later(t.told.Add(1), now)
		now = t.told
	}
	return now
}

// catchUp does what is due and moves time on to now, for readers of the books, who would otherwise
// see those of the last instant.
func (t *timeline) catchUp() time.Time { return t.reach(t.real()) }

func (t *timeline) reach(now time.Time) time.Time {
	t.liveUntil(now)
	t.moveTo(now)
	return t.now
}

// liveUntil fires the timers that are due by end, each at its time.
func (t *timeline) liveUntil(end time.Time) {
	for len(t.agenda) > 0 && !t.agenda[0].at.After(end) {
		entry := heap.Pop(&t.agenda).(*entry)
		t.moveTo(entry.at)
		entry.f()
		t.follow()
	}
}

// follow has woken calls go on, and does what is due at once, until there is nothing. Where no instant has to be whole, it stops after a
// stride of calls, so that others get the lock between very many that are woken by one thing.
func (t *timeline) follow() {
	for n := 0; t.exact || n < stride; {
		switch {
		case len(t.ready) > 0:
			p := t.ready[0]
			t.ready = t.ready[1:]
			p.resume()
			n++
		case len(t.agenda) > 0 && !t.agenda[0].at.After(t.now):
			heap.Pop(&t.agenda).(*entry).f()
		default:
			t.ready = nil
			return
		}
	}
}

// soon is at once, on timers of the machine. One of no time at all fires within the call that sets it, in virtual time.
const soon = time.Nanosecond

// arm sets the alarm for the first entry of the agenda, or for now if calls are left that can go on.
func (t *timeline) arm() {
	if len(t.agenda) == 0 && len(t.ready) == 0 {
		if t.alarm != nil && !t.armed.IsZero() {
			t.alarm.Stop()
			t.armed = time.Time{}
		}
		return
	}
	at := t.now
	if len(t.ready) == 0 {
		at = t.agenda[0].at
	}
	if at.Equal(t.armed) {
		return
	}
	t.armed = at
	wait := max(soon, at.Sub(t.real()))
	if t.alarm == nil {
		t.alarm = t.clock.AfterFunc(wait, t.ring)
		return
	}
	t.alarm.Reset(wait)
}

// AfterFunc sets a timer, as a Clock does. Call it within an instant.
func (t *timeline) AfterFunc(d time.Duration, f func()) Timer {
	e := &entry{line: t, f: f, place: -1}
	e.Reset(d)
	return e
}

// entry is a timer of a timeline. Its methods are to be called within an instant.
type entry struct {
	line  *timeline
	at    time.Time
	order uint64
	place int // index in the agenda; -1 = it is not there
	f     func()
}

// Reset sets the timer to another time.
func (e *entry) Reset(d time.Duration) bool {
	was := e.Stop()
	t := e.line
	t.set++
	e.at = t.now.Add(max(0, d))
	e.order = t.set
	heap.Push(&t.agenda, e)
	return was
}

// Stop takes the timer off the agenda.
func (e *entry) Stop() bool {
	if e.place < 0 {
		return false
	}
	heap.Remove(&e.line.agenda, e.place)
	return true
}

// agenda is a heap of timers by time; those of the same time are in the order in which they were
// set.
type agenda []*entry

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if !a[i].at.Equal(a[j].at) {
		return a[i].at.Before(a[j].at)
	}
	return a[i].order < a[j].order
}

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place = i
	a[j].place = j
}

func (a *agenda) Push(x any) {
	e := x.(*entry)
	e.place = len(*a)
	*a = append(*a, e)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	e.place = -1
	return e
}
