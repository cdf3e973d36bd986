package intake

import (
	"slices"
	"strings"
	"time"
)

// Bounds are the most bytes of bodies that may be in memory.
type Bounds struct {
	Process int64
	Tenant  int64
}

// large is the part of the process's memory that the book hands out; small bodies have the rest.
func (b Bounds) large() int64 { return b.Process - b.small() }

func (b Bounds) small() int64 { return b.Process / 4 }

// book is the account of who has how much memory for bodies, and who waits for more.
type book struct {
	bounds  Bounds
	used    int64
	tenants map[string]*account
	totals  map[string]*total // of tenants with all their teams
	waiting []*account        // those with a line
	growing *entry            // the body that holds memory and waits for more; nil if none does
	turn    uint64            // of the entry that asked last
	// held is the mean time for which memory was held lately.
	held time.Duration
}

// total is what a tenant and all its teams have.
type total struct {
	name     string
	used     int64
	accounts int
}

// account is one tenant's, or team's, part of the book.
type account struct {
	name    string
	total   *total
	readers int
	entries int      // that have memory or wait for it
	line    []*entry // those without memory that wait for it
}

// entry is one body.
type entry struct {
	of      *account
	has     int64
	wants   int64 // bytes more that it waits for; 0 if it does not wait
	most    int   // readers that its tenant may have; 0 is no bound
	reading bool
	turn    uint64
	since   time.Time
	granted chan struct{} // closed by the shell when the wait is over
}

// cause is why a body cannot have its memory now.
type cause int

const (
	fits cause = iota
	readersFull
	tenantFull
	processFull
)

func newBook(bounds Bounds) *book {
	return &book{bounds: bounds, tenants: map[string]*account{}, totals: map[string]*total{}}
}

// open makes an entry that has nothing yet.
func (b *book) open(tenant string, readers int) *entry {
	a := b.tenants[tenant]
	if a == nil {
		whole, _, _ := strings.Cut(tenant, "/")
		if b.totals[whole] == nil {
			b.totals[whole] = &total{name: whole}
		}
		a = &account{name: tenant, total: b.totals[whole]}
		a.total.accounts++
		b.tenants[tenant] = a
	}
	a.entries++
	b.turn++
	return &entry{of: a, most: readers, turn: b.turn}
}

// ask grants an entry more bytes, or says what is in the way and changes nothing. An entry without
// memory does not overtake those that wait.
func (b *book) ask(e *entry, more int64, now time.Time) cause {
	why := b.obstacle(e, more)
	if why == fits && e.has == 0 {
		why = b.before(e, more)
	}
	if why == fits {
		b.grant(e, more, now)
	}
	return why
}

// obstacle is what keeps an entry from its bytes, whoever else waits.
func (b *book) obstacle(e *entry, more int64) cause {
	switch {
	case !e.reading && e.most > 0 && e.of.readers >= e.most:
		return readersFull
	case e.of.total.used+more > b.bounds.Tenant:
		return tenantFull
	case b.used+more > b.bounds.large():
		return processFull
	}
	return fits
}

// before is the bound for which others wait that come before a newcomer.
func (b *book) before(e *entry, more int64) cause {
	if len(e.of.line) > 0 {
		return tenantFull
	}
	e.wants = more
	next := b.next(e)
	e.wants = 0
	if next != e {
		return processFull
	}
	return fits
}

// canWait reports whether an entry may wait for bytes at all: they must fit once others have given
// theirs back, and of the growing bodies only one waits.
func (b *book) canWait(e *entry, more int64) bool {
	if e.has+more > b.bounds.Tenant || e.has+more > b.bounds.large() {
		return false
	}
	return e.has == 0 || b.growing == nil
}

// wait puts an entry in line.
func (b *book) wait(e *entry, more int64) {
	e.wants = more
	if e.has > 0 {
		b.growing = e
		return
	}
	if len(e.of.line) == 0 {
		b.waiting = append(b.waiting, e.of)
	}
	e.of.line = append(e.of.line, e)
}

// leave takes an entry out of line.
func (b *book) leave(e *entry) {
	e.wants = 0
	if b.growing == e {
		b.growing = nil
		return
	}
	a := e.of
	if at := slices.Index(a.line, e); at >= 0 {
		a.line = slices.Delete(a.line, at, at+1)
	}
	if len(a.line) > 0 {
		return
	}
	if at := slices.Index(b.waiting, a); at >= 0 {
		b.waiting = slices.Delete(b.waiting, at, at+1)
	}
}

// serve grants what fits, in order, and returns the entries that need not wait any longer.
func (b *book) serve(now time.Time) []*entry {
	var served []*entry
	for {
		next := b.next(nil)
		if next == nil {
			return served
		}
		more := next.wants
		b.leave(next)
		b.grant(next, more, now)
		served = append(served, next)
	}
}

// next is the entry to be served now; nil if none fits. A newcomer, if there is one, is compared
// with those that wait.
func (b *book) next(newcomer *entry) *entry {
	first := newcomer
	if g := b.growing; g != nil {
		switch b.obstacle(g, g.wants) {
		case fits:
			return g
		case processFull:
			return nil
		}
	}
	for _, a := range b.waiting {
		e := a.line[0]
		why := b.obstacle(e, e.wants)
		if why == tenantFull || why == readersFull {
			continue // it waits for its own tenant
		}
		if first == nil || e.before(first) {
			first = e
		}
	}
	if first == nil || b.obstacle(first, first.wants) != fits {
		return nil
	}
	return first
}

// before reports whether e has its turn before o: its tenant has less, or as much and it came first.
func (e *entry) before(o *entry) bool {
	if e.of.total.used != o.of.total.used {
		return e.of.total.used < o.of.total.used
	}
	return e.turn < o.turn
}

func (b *book) grant(e *entry, more int64, now time.Time) {
	if !e.reading && e.has == 0 {
		e.reading = true
		e.of.readers++
		e.since = now
	}
	e.has += more
	e.of.total.used += more
	b.used += more
}

// arrived notes that a body is in memory as a whole.
func (b *book) arrived(e *entry) {
	if e.reading {
		e.reading = false
		e.of.readers--
	}
}

// shrink takes bytes back that an entry does not need.
func (b *book) shrink(e *entry, by int64) {
	e.has -= by
	e.of.total.used -= by
	b.used -= by
}

// close takes everything back that an entry has, and forgets it. It must not be in line.
func (b *book) close(e *entry, now time.Time) {
	if e.has > 0 {
		b.held += (now.Sub(e.since) - b.held) / 8
	}
	b.arrived(e)
	b.shrink(e, e.has)
	e.of.entries--
	if e.of.entries == 0 {
		delete(b.tenants, e.of.name)
		e.of.total.accounts--
		if e.of.total.accounts == 0 {
			delete(b.totals, e.of.total.name)
		}
	}
}

// The bounds of what a caller is told to wait.
const (
	leastRetry = time.Second
	mostRetry  = time.Minute
)

// retryAfter estimates when an entry that was refused would find its bytes, in whole seconds: memory
// comes back at the rate at which it was held lately, and those in line come first.
func (b *book) retryAfter(e *entry, more int64, why cause) time.Duration {
	ahead := more
	room := b.bounds.large()
	for _, a := range b.waiting {
		if why == processFull || a == e.of {
			for _, w := range a.line {
				ahead += w.wants
			}
		}
	}
	if why != processFull {
		room = min(room, b.bounds.Tenant)
	}
	turns := (ahead + room - 1) / max(1, room)
	estimate := b.held * time.Duration(min(turns, 1000))
	estimate = (estimate + time.Second - 1).Truncate(time.Second)
	return min(max(estimate, leastRetry), mostRetry)
}
