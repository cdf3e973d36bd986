package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
)

// Ending is how an admitted call ended. It is written once.
type Ending struct {
	Done            bool
	Outcome, Reason string
	Usage           governor.Usage
	MicroUSD        int64          // what Usage costs
	Estimated       bool           // the usage was counted here, not reported by the upstream
	Unread          bool           // the answer was whole, and told no usage that could be read
	Later           bool           // the usage is charged elsewhere, and is not known here
	Panicked        bool           // the gateway failed
	Last            governor.Usage // the part of Usage that the last try took
	Reported        bool           // the upstream of the last try reported its usage, even if that of earlier ones is estimated
	FirstToken      time.Duration  // after admission; 0 if there was none
	ran             time.Duration  // see Call.ran
}

// Failures of upstreams, beside the statuses that they answer with.
const (
	ReasonIdle      = "idle"      // an answer fell silent
	ReasonTruncated = "truncated" // it ended before its end
	ReasonEvent     = "event"     // it said itself that it failed
	ReasonTimeout   = "timeout"   // none came in time
	ReasonAccount   = "account"   // it refuses the account, whatever the call
	ReasonBroken    = "broken"    // none came, and the connection is lost
)
