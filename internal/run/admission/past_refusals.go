package admission

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/recent"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// keptRefusals is how many refusals can be explained afterwards.
const keptRefusals = 2048

// keptPolicies is of how many policies refusals are kept. Each policy is kept in memory as a whole.
const keptPolicies = 8

// PastRefusal is a call that was refused, with all that it takes to explain why. The explanation is
// worked out only when somebody asks.
type PastRefusal struct {
	ID       string
	At       time.Time
	Snapshot *tenants.Snapshot // Policy.explains
	Tenant   string
	Request  governor.Request
	Said     *ask.Refusal // the answer, or the one that it would have been:
	Shadow   bool         // the call went all the same
	// Refused is the governor's reason, and Forecast is how all limits stood; they are nil if
	// something else was wrong with the call.
	Refused  *governor.Refusal
	Forecast governor.Forecast
}

// past are the last refusals, by tenant and id.
type past = recent.Ring[*PastRefusal]

func newPast() *past { return recent.New[*PastRefusal](keptRefusals) }

// explainLocked keeps the refusals of the next policy from now on, and forgets those of policies too long ago.
func (c *Controller) explainLocked(next *Policy) {
	if slices.Contains(c.explained, next.explains) {
		return
	}
	c.explained = append(c.explained, next.explains)
	if len(c.explained) > keptPolicies {
		c.explained = slices.Delete(c.explained, 0, 1)
	}
	c.refused.Drop(func(p *PastRefusal) bool { return !slices.Contains(c.explained, p.Snapshot) })
}
