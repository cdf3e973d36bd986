package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// Overridden refuses all calls of a tenant that is blocked; nil if it is not. Shadow does not let them pass: it tries
// out what files say.
func Overridden(t *tenants.Tenant, now time.Time) *ask.Refusal {
	if t.Blocked == nil || !t.Blocked.Live(now) {
		return nil
	}
	end := time.Time{}
	if t.Blocked.Until != nil {
		end = *t.Blocked.Until
	}
	until, after := ending(end, now)
	return &ask.Refusal{
		Status: statusForbidden, Code: ask.CodeTenantBlocked, RetryAfter: after, Final: true,
		Message: "Whoever runs this gateway has blocked tenant " + t.Blocked.Tenant + until + ", so none of its calls passes.",
	}
}

// ending says until when a block lasts, and how long that is yet; nothing of one without an end.
func ending(end, now time.Time) (until string, after time.Duration) {
	if end.IsZero() {
		return "", 0
	}
	return " until " + end.UTC().Format(time.RFC3339), end.Sub(now)
}

// Refused notes that llmgov refuses the call, and remembers why for those who ask later. The governor's
// refusals are remembered already.
func (c *Call) Refused(f *ask.Refusal) {
	c.Turned = f
	if c.Tenant != nil && c.Cause == nil {
		c.ctl.remember(&PastRefusal{ID: c.ID, At: time.Now(), Snapshot: c.Policy.explains, Tenant: c.Tenant.Name, Request: c.Request, Said: f})
	}
}

// refused takes over a refusal.
func (c *Call) refused(rej *governor.Refusal) *ask.Refusal {
	rej = rej.Spread(c.ID)
	c.Cause = rej
	c.remind(rej, false)
	c.Account.Refused(rej.Reason)
	return RefusalOf(rej, c.Tenant)
}

// Retract refuses a call that was admitted but not sent, as if it had not been admitted.
func (c *Call) Retract(rej *governor.Refusal) *ask.Refusal {
	c.Lease.Release()
	c.Admitted = time.Time{}
	return c.refused(rej)
}

// remind remembers why the governor refused the call, or would have.
func (c *Call) remind(rej *governor.Refusal, shadow bool) {
	if rej.Reason == governor.ReasonCancelled {
		return
	}
	c.ctl.remember(&PastRefusal{
		ID: c.ID, At: time.Now(), Snapshot: c.Policy.explains, Tenant: c.Tenant.Name, Request: c.Request, Said: RefusalOf(rej, c.Tenant), Shadow: shadow,
		Refused: rej, Forecast: c.ctl.gov.Reasons(c.Request, rej),
	})
}

// countTurned counts a call that llmgov turned away before the governor was asked. The governor
// counts its own refusals.
func (c *Call) countTurned() {
	if c.Turned == nil || c.Ending.Done || c.Cause != nil {
		return
	}
	tenant, tier, pool := c.names()
	c.ctl.metrics.Turned(tenant, tier, pool, c.Turned.Code)
}
