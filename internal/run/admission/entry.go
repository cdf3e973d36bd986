package admission

import "time"

// entry is how a call gets in.
type entry struct {
	asked  time.Time     // when it first asked to be admitted
	waited time.Duration // before it asked, and under policies before this one
	left   time.Duration // of its wait, if it waited before
	turns  int           // how often it was admitted anew
	only   *ongoingCall  // nil unless it is the only call with its Retry.Key
}

// mostTurns is how often a call is admitted anew, where pauses are short.
const mostTurns = 100
