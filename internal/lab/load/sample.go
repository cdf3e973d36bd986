package load

import (
	"time"

	"github.com/llmgov/llmgov/streaming"
)

// Outcome is the final outcome of a call.
type Outcome int

// The outcomes.
const (
	OK         Outcome = iota // the whole answer came
	Refused                   // 402, 429 or 503, after the last retry
	Broken                    // broken off by the plan
	Failed                    // an error, or an answer that is not whole
	Unfinished                // the run was cut short
)

// never is the time of events that did not happen.
const never = time.Duration(-1)

// Sample is the record of one call. Times are since the start of the run, or never.
type Sample struct {
	Tenant  int
	At      time.Duration // when it was due
	Left    time.Duration // when it was first sent
	Sent    time.Duration // when it was last sent
	Headers time.Duration // of the last attempt, as the two below
	First   time.Duration // the first part of the answer
	End     time.Duration
	Held    bool // MaxInFlight held it back

	Outcome  Outcome
	Failure  string // its kind, if it has failed
	Example  string // of a failure, in full
	TimedOut bool
	Stream   bool
	Attempts int
	Refusals []Refusal
	Usage    streaming.Usage
	Reported bool            // the answer had Usage
	Gaps     []time.Duration // between parts of the answer
}

// Refusal is one refused attempt.
type Refusal struct {
	Kind string        // status and type of the error, such as "429 share"
	Took time.Duration // since it was sent
	Hint time.Duration // Retry-After; 0 for none
}
