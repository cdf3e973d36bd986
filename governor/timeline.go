package governor

import (
	"container/heap"
	"sync"
	"time"
)

// timeline makes all that a governor decides a function of what it is told, and when: so
// that who keeps what it was told can have the same decided again, or see what another
// configuration would have made of it. See Config.Recorded.
//
// Without it calls walk through their limits at once, timers go off when the machine
// gets to it, and who is woken runs when there is a core: in which order they come to
// a lock is nobody's to say. With it there is one instant after the other. In each, one
// thing is told (a call asks, ends, leaves, …), and all that follows from it happens,
// calls that are woken included, before the next begins. No two are at the same time.
// Timers go off at the very time that they were set to, however late the machine is:
// before something is told, what was due by then is lived through. So time within
// is exact, and only what is told has a time of the real clock.
type timeline struct {
	clock  Clock // the real one
	origin time.Time

	mu     sync.Mutex // held for an instant
	agenda agenda
	set    uint64   // how many timers were set, for their order
	ready  []*fiber // woken, in the order in which they were
	runs   *fiber   // the call that walks now; nil between them
	parked map[*fiber]struct{}
	told   time.Time // the last instant in which something was told
	drains bool
	alarm  Timer // wakes the timeline for the first of agenda
	armed  time.Time

	reading sync.Mutex // guards now, which is read between instants too
	now     time.Time
}

func newTimeline(clock Clock) *timeline {
	now := clock.Now()
	return &timeline{clock: clock, origin: now, now: now, parked: map[*fiber]struct{}{}}
}

// Now is the instant, as a Clock.
func (t *timeline) Now() time.Time {
	t.reading.Lock()
	defer t.reading.Unlock()
	return t.now
}

func (t *timeline) moveTo(now time.Time) {
	t.reading.Lock()
	defer t.reading.Unlock()
	if now.After(t.now) {
		t.now = now
	}
}

// real is the time of the clock. Its wall goes on from the origin with its monotonic
// reading, so that who has only the former comes to the same.
func (t *timeline) real() time.Time { return t.origin.Add(t.clock.Now().Sub(t.origin)) }

// instant tells something, and lives through what follows.
func (t *timeline) instant(tell func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.real()
	if next := t.told.Add(1); now.Before(next) {
		now = next
	}
	t.told = now
	t.liveUntil(now)
	t.moveTo(now)
	t.live(tell)
}

// live tells something as of the instant that it is, which at first is the origin.
func (t *timeline) live(tell func()) {
	tell()
	t.follow()
	t.arm()
}

// catchUp lives through what is due, and lets time go on until now, for who reads the
// books: without that they would be those of the last instant.
func (t *timeline) catchUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.real()
	t.liveUntil(now)
	t.moveTo(now)
	t.arm()
}

// liveUntil lets timers go off that are due by then, each at its time.
func (t *timeline) liveUntil(end time.Time) {
	for len(t.agenda) > 0 && !t.agenda[0].at.After(end) {
		entry := heap.Pop(&t.agenda).(*entry)
		t.moveTo(entry.at)
		entry.f()
		t.follow()
	}
}

// follow lets run who was woken, until nobody is, and timers go off that are due at once.
func (t *timeline) follow() {
	for {
		switch {
		case len(t.ready) > 0:
			f := t.ready[0]
			t.ready = t.ready[1:]
			f.ready = false
			t.run(f)
		case len(t.agenda) > 0 && !t.agenda[0].at.After(t.now):
			heap.Pop(&t.agenda).(*entry).f()
		default:
			t.ready = nil
			return
		}
	}
}

// arm sets the alarm for the first of the agenda.
func (t *timeline) arm() {
	if len(t.agenda) == 0 {
		if t.alarm != nil && !t.armed.IsZero() {
			t.alarm.Stop()
			t.armed = time.Time{}
		}
		return
	}
	at := t.agenda[0].at
	if at.Equal(t.armed) {
		return
	}
	t.armed = at
	wait := max(0, at.Sub(t.real()))
	if t.alarm == nil {
		t.alarm = t.clock.AfterFunc(wait, t.ring)
		return
	}
	t.alarm.Reset(wait)
}

// ring is what the alarm does.
func (t *timeline) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = time.Time{}
	t.liveUntil(t.real())
	t.arm()
}

// AfterFunc sets a timer, as a Clock. It is called within an instant.
func (t *timeline) AfterFunc(d time.Duration, f func()) Timer {
	e := &entry{line: t, f: f, place: -1}
	e.Reset(d)
	return e
}

// entry is a timer of a timeline. Its methods are called within an instant.
type entry struct {
	line  *timeline
	at    time.Time
	order uint64
	place int // in the agenda; -1 is nowhere
	f     func()
}

// Reset sets it to another time.
func (e *entry) Reset(d time.Duration) bool {
	was := e.Stop()
	t := e.line
	t.set++
	e.at, e.order = t.now.Add(max(0, d)), t.set
	heap.Push(&t.agenda, e)
	return was
}

// Stop takes it out.
func (e *entry) Stop() bool {
	if e.place < 0 {
		return false
	}
	heap.Remove(&e.line.agenda, e.place)
	return true
}

// agenda is timers by time and, of the same time, in the order in which they were set.
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
	a[i].place, a[j].place = i, j
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
