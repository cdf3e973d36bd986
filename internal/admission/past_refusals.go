package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/recent"
	"github.com/llmgov/llmgov/tenants"
)

// keptRefusals is how many refusals can be explained afterwards.
const keptRefusals = 2048

// PastRefusal is a call that was refused, with all that it takes to explain why. The explanation is
// worked out only when somebody asks.
type PastRefusal struct {
	ID       string
	At       time.Time
	Snapshot *tenants.Snapshot
	Tenant   *tenants.Tenant
	Request  governor.Request
	Said     *Refusal // the answer, or the one that it would have been:
	Shadow   bool     // the call went all the same
	// Rejected is the governor's reason, and Outlook is how all limits stood; they are nil if
	// something else was wrong with the call.
	Rejected *governor.Rejection
	Outlook  governor.Outlook
}

// past are the last refusals, by tenant and id.
type past = recent.Ring[*PastRefusal]

func newPast() *past { return recent.New[*PastRefusal](keptRefusals) }
