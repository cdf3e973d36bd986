package admission

import (
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
)

// Try is a call on its way to one upstream. Most calls have one.
type Try struct {
	Began time.Time
	Sent  atomic.Bool // the upstream has got the beginning of it
	// Refused says that the upstream answered with an error, so that it has produced nothing.
	Refused bool
}

// tries are the ways of a call to upstreams.
type tries struct {
	now   *Try // the one on its way
	first Try
	// lost is the usage of failed tries, and paid the part of it that was charged with earlier leases.
	lost, paid governor.Usage
}

// Unsend notes that the call turned out not to have reached its upstream, so that it costs nothing.
func (t *tries) Unsend() { t.now.Sent.Store(false) }

// BeginTry begins a try, for a caller that knows how far each of them has got.
func (t *tries) BeginTry(next *Try) {
	next.Began = time.Now()
	t.now = next
}

// Lost notes the usage of a try that came to nothing. It is charged at the end.
func (t *tries) Lost(u governor.Usage) { t.lost = t.lost.Plus(u) }

// payLost ends a lease with the usage of failed tries so far.
func (t *tries) payLost(lease governor.Lease) {
	if t.lost == (governor.Usage{}) {
		lease.Release()
		return
	}
	lease.Break(t.lost)
	t.paid = t.paid.Plus(t.lost)
	t.lost = governor.Usage{}
}
