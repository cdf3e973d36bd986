package governor

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor/record"
)

// Governor admits calls. It is safe for concurrent use.
type Governor struct {
	zone    *time.Location
	journal Journal  // nil = it forgets
	shared  bool     // the pools' limits
	changes *changes // for whoever speaks with other processes; nil = nothing is shared

	sharedLimits, sharedSlots bool

	instance string

	events   *eventQueue
	detailed bool          // somebody listens, to all that is told
	recorded bool          // what is told has one order, and what is decided follows from it
	line     *timeline     // of which the lock guards all
	drained  chan struct{} // closed by Drain

	applying sync.Mutex // one Apply at a time

	mu    sync.Mutex // guards the fields below, and all that they lead to
	table *table
	tally *tally
	calls uint64    // the last call's number in the journal
	asked uint64    // how many calls have asked
	spare sync.Pool // of *holds

	pools   map[string]*pool // only an Apply changes these
	tenants map[string]*tenant
}

// New returns a Governor for cfg, or an error that names all that is wrong with cfg.
func New(cfg Config) (*Governor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	clock := cfg.Clock
	if clock == nil {
		clock = SystemClock{}
	}
	g := &Governor{
		zone: cfg.Zone, journal: cfg.Journal, shared: cfg.Shared, sharedLimits: cfg.SharedLimits, sharedSlots: cfg.SharedSlots, recorded: cfg.Recorded, instance: cfg.Instance,
		events: newEventQueue(cfg.Observer), line: newTimeline(clock, cfg.Recorded), drained: make(chan struct{}),
		spare: sync.Pool{New: func() any { return &holds{} }},
		pools: map[string]*pool{}, tenants: make(map[string]*tenant, len(cfg.Tenants)),
	}
	past := cmp.Or(cfg.Past, record.NewPast(g.line.now, g.zone))
	g.detailed = g.events.listened() && (cfg.Detailed || cfg.Recorded)
	if cfg.SharedLimits || cfg.SharedSlots {
		g.changes = newChanges(g)
		g.changes.past = past.Uses.Clone()
	}
	g.line.ring = func() {
		g.mu.Lock()
		g.line.armed = time.Time{}
		g.line.catchUp()
		g.unlock()
	}
	past.Cut()
	past.Uses.Advance(g.line.now)
	g.calls = past.Last
	g.tally = &tally{uses: past.Uses.Clone()} // the journal goes on to use its own
	g.mu.Lock()
	defer g.unlock()
	g.tellStart(&cfg)
	g.begin(&cfg, past)
	return g, nil
}

// begin puts the first configuration in force, and books the past.
func (g *Governor) begin(cfg *Config, past *record.Past) {
	now := g.line.now
	g.apply(now, *cfg, &recall{tally: g.tally, shares: past.Shares, starting: true})
	g.review()
	g.table.remember(now, past)
	g.table.announcePast(now, past)
	if cfg.Fresh || past.Last > 0 { // all of the last minute is known
		for _, p := range g.pools {
			p.escrow.Recalled(now)
		}
	}
}

// endOf is the error of a context that has ended, which may notice its deadline a moment late.
func endOf(ctx context.Context) error {
	if until, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(until) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// Refused is what Acquire returned, with its error as a *Refusal, which says why; nil if there is none.
//
//	lease, rej := governor.Refused(g.Acquire(ctx, req))
func Refused(l Lease, err error) (Lease, *Refusal) {
	if err == nil {
		return l, nil
	}
	rej, _ := errors.AsType[*Refusal](err)
	return l, rej
}

// Drain stops admission for good: calls that wait are refused, and so is whatever comes later.
// Leases live on until they end.
func (g *Governor) Drain() {
	g.lock()
	defer g.unlock()
	if g.Draining() {
		return
	}
	close(g.drained)
	g.line.wake(func(*call) bool { return true })
	g.queueDetail(Event{Kind: EventDrained})
}

// Draining reports whether Drain was called.
func (g *Governor) Draining() bool {
	select {
	case <-g.drained:
		return true
	default:
		return false
	}
}
