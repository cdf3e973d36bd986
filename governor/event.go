package governor

import (
	"time"

	"github.com/llmgov/llmgov/governor/record"
)

// Observer is told what was decided, and what became of it. It is called by many goroutines at
// once, none of which holds a lock, and while a call waits for it: it must be quick, and must not
// call back into the Governor. Cuts and configurations come in the order in which they were put in
// force, and the events of a call in the order in which they happened.
type Observer interface{ Observe(Event) }

// EventKind says what an Event is about.
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

// A governor that is Recorded or Detailed reports these too; together they are all that it was told: it
// started, a call asked, its caller went away, it has produced so much, the governor was drained,
// the upstream refused the call for want of capacity or did not answer it in time, the call went on to another upstream, the servers of a pool with an
// adaptive limit told their load, the upstream failed the call. A governor that is Recorded also reports what it was told of grants.
const (
	EventStarted EventKind = iota + EventKind(NumEventKinds)
	EventAsked
	EventLeft
	EventProgress
	EventDrained
	EventOverloaded
	EventRetried
	EventLoaded
	EventFailed
	EventMoved
	EventLate
	EventTold
)

var eventNames = [...]string{
	"", "admitted", "refused", "ended", "reloaded", "throttled", "started", "asked", "left", "progress", "drained", "overloaded", "retried", "loaded", "failed", "moved", "late", "told",
}

func (k EventKind) String() string { return eventNames[k] }

// Event is one thing that happened, with all that is known of it. It may be kept, but not changed.
type Event struct {
	Kind EventKind
	At   time.Time
	// Call numbers the calls of a governor, as they ask.
	Call uint64
	// Request is the call. For an end it has only what the lease knows: ID, Tenant, Pool, Model,
	// Stream, Input and Price. For cuts it has the Pool.
	Request Request
	// Waited is how long an admitted or refused call had waited.
	Waited time.Duration
	// Refused is why a call was refused; for a shadow, why it would have been.
	Refused *Refusal
	// Ending, Usage and Ran are set for an end: how the call ended, what it took, and how long it
	// ran.
	Ending Ending
	Usage  Usage
	Ran    time.Duration
	// MicroUSD is what an ended call costs in money.
	MicroUSD int64
	// Upstream is where a call is counted that was admitted or has moved, if the pool's upstreams have limits of their own.
	// Upstreams are those to which it could go, by their names; none is all of them.
	Upstream  string
	Upstreams []string
	// Sent says that a call that has moved counts as a request at the upstream that it has left, and Usage what it took there.
	Sent bool
	// Cuts are all that are in force in a pool from now on.
	Cuts []Cut
	// Load is that of the servers of a pool.
	Load Load
	// Revision names the Config now in force, and Config is that.
	Revision string
	Config   *Config
	// Told is a grant, or something else that the governor was told of limits that other processes share.
	Told *Told
	// Past is the memory of a governor that starts; nil if it has none.
	Past *record.PastState
}

// Ending is how a lease ended. The zero Ending is that of none that has.
type Ending uint8

// See the methods of Lease.
const (
	EndSettled Ending = iota + 1
	EndBroken
	EndCharged
	EndReleased
	EndPostponed
)

var endingNames = [...]string{"", "settled", "broken", "charged", "released", "postponed"}

func (e Ending) String() string { return endingNames[e] }

// queueDetail queues an event that only detailed governors report, as of now.
func (g *Governor) queueDetail(e Event) {
	if g.detailed {
		e.At = g.line.now
		g.events.add(e)
	}
}

// tellStart tells what a governor begins with. One that shares limits goes by what it remembers of them only where it is told to.
func (g *Governor) tellStart(cfg *Config) {
	e := Event{Kind: EventStarted, Revision: cfg.Revision, Config: cfg}
	if cfg.Past != nil && (cfg.Recorded || !cfg.Shared) {
		e.Past = cfg.Past.State()
	}
	g.queueDetail(e)
}

// told is the decision on a call, for the Observer.
func (c *call) told() Event {
	e := Event{Kind: EventAdmitted, Call: c.number, Request: c.req.Record(), Waited: c.lease.Waited, Refused: c.lease.Would, Upstream: c.upstream}
	if c.rej != nil {
		e.Kind = EventRefused
		e.Waited = c.rej.Waited
		e.Refused = c.rej
	}
	e.At = c.began.Add(e.Waited)
	return e
}
