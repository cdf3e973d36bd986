package reserve

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/lib/inflight"
)

// Door is the governor as a Book sees it.
type Door interface {
	doors.Door
	// ReserveTold is Reserve for a call whose end the tenant's own program tells, and is not believed more than the tenant could have taken.
	ReserveTold(ctx context.Context, req client.Request) (doors.Held, error)
	// Later returns a function that charges what a call that has ended turns out to have taken beyond what was
	// charged at its end. The function keeps nothing of the call itself.
	Later(h doors.Held) func(client.Usage)
}

// Options are the parts of a Book.
type Options struct {
	Door Door
	// Tenant finds the tenant of a key.
	Tenant func(key string) (name string, ok bool)
	// Most is how many reservations may be open or asking, in all.
	Most int
	// Idle is the longest ttl of a reservation of which its tenant tells; 0 is that of all.
	Idle time.Duration
}

// Book has the reservations. It is safe for concurrent use.
type Book struct {
	Options
	base context.Context // of all calls
	cut  context.CancelCauseFunc

	inflight inflight.Count // of reservations whose ends are not booked

	mu       sync.Mutex
	all      map[name]*reservation // guarded by mu: open or asking
	byTenant map[string]int        // guarded by mu: the same, counted
	past     past                  // guarded by mu
	early    past                  // guarded by mu: cancelled before they were asked for
}

// name is whose reservation it is, and which one.
type name struct{ owner, id string }

// reservation is a lease that somebody else holds.
type reservation struct {
	name   name
	tenant string // by which it is counted
	asks   uint64 // a digest of what was asked
	told   bool   // by its tenant
	ttl    time.Duration
	end    context.CancelCauseFunc // of the call's context

	held      doors.Held      // set before lease
	lease     *client.Lease   // guarded by Book.mu; nil while it asks
	cancelled bool            // guarded by Book.mu: while it asked
	until     time.Time       // guarded by Book.mu
	last      time.Time       // guarded by Book.mu: until is no later; zero is no bound
	timer     *time.Timer     // guarded by Book.mu
	produced  client.Produced // guarded by Book.mu
}

// New returns an empty Book.
func New(opt Options) *Book {
	b := &Book{Options: opt, all: map[name]*reservation{}, byTenant: map[string]int{}, past: newPast(opt.Most), early: newPast(mostEarly)}
	b.base, b.cut = context.WithCancelCause(context.Background())
	return b
}

// Open is how many reservations there are, open or asking.
func (b *Book) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// add enters a reservation that asks, if there is no other by its name and room for it. Another one
// that is open and asks for the same is returned instead.
func (b *Book) add(r *reservation) (same *reservation, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, ok := b.all[r.name]; ok {
		return other, b.repeatedLocked(other, r)
	}
	if now := time.Now(); b.past.find(r.name, now) != nil || b.early.find(r.name, now) != nil {
		return nil, invalid("reservation_id", "reservation %s has ended; choose another id for another call", r.name.id)
	}
	free := b.Most - len(b.all)
	if free <= b.byTenant[r.tenant] {
		return nil, b.fullLocked(r.tenant, free)
	}
	b.inflight.Enter(math.MaxInt64) // bounded above
	b.all[r.name] = r
	b.byTenant[r.tenant]++
	return nil, nil
}

// repeatedLocked says whether a reservation is the repetition of another one, which is renewed.
func (b *Book) repeatedLocked(other, r *reservation) error {
	switch {
	case other.asks != r.asks:
		return invalid("reservation_id", "reservation %s is open, and is for another call", r.name.id)
	case other.lease == nil:
		return running(r.name.id)
	}
	other.liveLocked(time.Now())
	return nil
}

// liveLocked takes in a sign of life.
func (r *reservation) liveLocked(now time.Time) {
	r.until = now.Add(r.ttl)
	if !r.last.IsZero() && r.until.After(r.last) {
		r.until = r.last
	}
}

// opened notes that a reservation has its lease. It reports false if it was cancelled before.
func (b *Book) opened(r *reservation, l *client.Lease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.cancelled || b.base.Err() != nil {
		return false
	}
	r.lease = l
	now := time.Now()
	if r.told {
		r.last = now.Add(longestTTL)
	}
	r.liveLocked(now)
	r.timer = time.AfterFunc(r.ttl, func() { b.expire(r) })
	return true
}

// drop removes a reservation that came to nothing.
func (b *Book) drop(r *reservation) {
	b.mu.Lock()
	b.removeLocked(r)
	b.mu.Unlock()
	b.inflight.Leave()
}

func (b *Book) removeLocked(r *reservation) {
	delete(b.all, r.name)
	b.byTenant[r.tenant]--
	if b.byTenant[r.tenant] == 0 {
		delete(b.byTenant, r.tenant)
	}
}
