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
	Estimated       bool           // the usage was counted here, not reported by the upstream
	Later           bool           // the usage is charged elsewhere, and is not known here
	Panicked        bool           // the gateway failed
	Last            governor.Usage // the part of Usage that the last try took
	Reported        bool           // the upstream of the last try reported its usage, even if that of earlier ones is estimated
	FirstToken      time.Duration  // after admission; 0 if there was none
	ran             time.Duration  // see Call.ran
}

// ReasonIdle is the failure of an answer that fell silent.
const ReasonIdle = "idle"
