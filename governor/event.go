package governor

import "time"

// Observer is told what was decided, and what came of it. It is called by many
// goroutines at once, some of which hold a lock, beside a call that is on its way: it must
// be quick, and must not call back.
type Observer interface{ Observe(Event) }

// EventKind says what an Event tells.
type EventKind uint8

// A call is admitted or refused, and once admitted it ends. Another configuration is
// put in force, or cuts of a pool are.
const (
	EventAdmitted EventKind = iota + 1
	EventRefused
	EventEnded
	EventApplied
	EventThrottled

	NumEventKinds = int(iota) + 1
)

// These are told of by a governor that is Recorded or Detailed, so that all it is told is there:
// it starts, a call asks, its caller is gone, it has produced so much, all are drained, the
// upstream has refused it for want of capacity, it has gone to another.
const (
	EventStarted EventKind = iota + EventKind(NumEventKinds)
	EventAsked
	EventLeft
	EventProgress
	EventDrained
	EventOverloaded
	EventRetried
)

var eventNames = [...]string{
	"", "admitted", "refused", "ended", "reloaded", "throttled", "started", "asked", "left", "progress", "drained", "overloaded", "retried",
}

func (k EventKind) String() string { return eventNames[k] }

// Event is one thing that happened, with all that is known of it. It may be kept.
type Event struct {
	Kind EventKind
	At   time.Time
	// Call is which call it is of, of those that a Recorded or Detailed governor was asked for.
	Call uint64
	// Request is the call. Of an end it has what a lease knows: ID, Tenant, Pool, Model,
	// Stream and Input. Of cuts it has the Pool.
	Request Request
	// Waited is how long an admitted or refused call had waited.
	Waited time.Duration
	// Refused is why a call was refused or, of a shadow that was admitted, would have
	// been.
	Refused *Rejection
	// Ending, Usage and Ran are of an end: of which kind it was, what the call took,
	// and how long it ran.
	Ending Ending
	Usage  Usage
	Ran    time.Duration
	// Cuts are those in force from now on in a pool.
	Cuts []Cut
	// Revision is that of the Config now in force, and Config is that; it is not to be
	// changed.
	Revision string
	Config   *Config
	// Past is what a governor starts with, if it remembers anything that no others keep.
	Past *PastState
}

// Ending is how a lease ended.
type Ending uint8

// See the methods of Lease.
const (
	EndSettled Ending = iota
	EndBroken
	EndCharged
	EndReleased

	NumEndings = int(iota)
)

var endingNames = [NumEndings]string{"settled", "broken", "charged", "released"}

func (e Ending) String() string { return endingNames[e] }

// record tells an event that only records have, as of now.
func (g *Governor) record(e Event) {
	if g.detailed {
		e.At = g.clock.Now()
		g.observer.Observe(e)
	}
}

// tellStart tells what a governor begins with. What it remembers of limits that others keep, too,
// it does not go by.
func (g *Governor) tellStart(cfg *Config) {
	e := Event{Kind: EventStarted, Revision: cfg.Revision, Config: cfg}
	if cfg.Past != nil && !cfg.Shared {
		e.Past = cfg.Past.State()
	}
	g.record(e)
}

// tellDecision tells how a call that came at began was decided.
func (g *Governor) tellDecision(req *Request, began time.Time, l *Lease, rej *Rejection) {
	e := Event{Kind: EventAdmitted, Call: req.call, Request: *req, Waited: l.Waited, Refused: l.Would}
	if rej != nil {
		e.Kind, e.Waited, e.Refused = EventRefused, rej.Waited, rej
	}
	e.At = began.Add(e.Waited)
	if g.detailed && g.line == nil && rej != nil && rej.Reason == ReasonCancelled {
		g.observer.Observe(Event{Kind: EventLeft, At: e.At, Call: req.call})
	}
	g.observer.Observe(e)
}

// tellEnd tells how a lease ended.
func (g *Governor) tellEnd(now time.Time, p *pool, st *leaseState, asked uint64, how Ending, u Usage) {
	g.observer.Observe(Event{
		Kind: EventEnded, At: now, Call: asked, Ending: how, Usage: u, Ran: now.Sub(st.since),
		Request: Request{ID: st.id, Tenant: st.tenant.name, Pool: p.name, Model: st.course.kind.Model, Stream: st.stream, Input: st.input},
	})
}
