package plan

import (
	"time"

	"github.com/llmgov/llmgov/governor"
)

// warmUp is how long a log whose beginning is gone is taken as it was: until all that a
// rolling minute may have held by then is over, and what was served in the two minutes before any
// call is known, which promises follow from.
const warmUp = 3 * time.Minute

// takenAsItWas reports whether a call is not decided again: what counted when it came is not
// known, or one of several gateways refused it for a reason that the others did not have.
func (r *Run) takenAsItWas(c *Call) bool {
	if r.Late && c.At < r.knownFrom() {
		return true
	}
	return r.fleet && c.Decided.Outcome == Refused && ofNoPolicy[c.Decided.Why.Reason]
}

// knownFrom is the instant from which on calls of a run whose beginning is gone are decided again.
func (r *Run) knownFrom() int64 { return r.since + int64(warmUp) }

// decidedFrom is when calls begin to be decided again.
func (r *Run) decidedFrom() time.Time {
	if r.Late {
		return r.Start.Time.Add(time.Duration(r.knownFrom()))
	}
	return r.begins()
}

// ofNoPolicy are reasons for which calls were refused whatever the policy says: they stay refused.
var ofNoPolicy = map[string]bool{
	governor.ReasonDraining.String(): true, governor.ReasonStore.String(): true, governor.ReasonStoreLost.String(): true,
}
