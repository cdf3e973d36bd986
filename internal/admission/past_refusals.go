package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
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
	Said     *Refusal // the answer, or what it would have been:
	Shadow   bool     // the call went all the same
	// Rejected is the governor's reason, and Outlook is how all limits stood; they are nil if
	// something else was wrong with the call.
	Rejected *governor.Rejection
	Outlook  governor.Outlook
}

// remember keeps a refusal for whoever asks about it later.
func (c *Controller) remember(p *PastRefusal) { c.refused.Keep(p.Tenant.Name, p.ID, p) }

// PastRefusals are the last refusals of calls with an id. Ids are callers' to choose, so several
// tenants may have used one.
func (c *Controller) PastRefusals(id string) []*PastRefusal { return c.refused.Find(id) }

// remind remembers why the governor refused the call, or would have.
func (c *Call) remind(rej *governor.Rejection, shadow bool) {
	if rej.Reason == governor.ReasonCancelled {
		return
	}
	c.ctl.remember(&PastRefusal{
		ID: c.ID, At: time.Now(), Snapshot: c.Policy.Snapshot, Tenant: c.Tenant, Request: c.Request, Said: Rejected(rej), Shadow: shadow,
		Rejected: rej, Outlook: c.ctl.gov.Reasons(c.Request, rej),
	})
}
