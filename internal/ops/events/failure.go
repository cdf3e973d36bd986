package events

import (
	"time"

	"github.com/llmgov/llmgov/governor"
)

// KindFailed is the name of an event that is a Failure. All others are named by their
// governor.EventKind.
const KindFailed = "failed"

// Failure is an admitted call that failed, because its upstream did or because the gateway cut it
// off.
type Failure struct {
	// Upstream is the last upstream; empty if it was not sent.
	Upstream string
	// Status is that of the client's answer, and Class the reason in the metrics.
	Status int
	Class  string
	// Cause is the error; empty if the answer has it.
	Cause string
}

// Kind names the kind of the event.
func (e *Event) Kind() string {
	switch {
	case e.Failure != nil:
		return KindFailed
	case e.Warning != nil:
		return KindBudget
	}
	return e.Event.Kind.String()
}

// Fail adds the failure of a call. The ring keeps nothing by which the call could be reached.
func (r *Ring) Fail(at time.Time, call governor.Request, ran time.Duration, f Failure) {
	r.add(Event{Event: governor.Event{At: at, Request: call.Record(), Ran: ran}, Failure: &f})
}
