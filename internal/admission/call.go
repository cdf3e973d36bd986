package admission

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/tracing"
	"github.com/llmgov/llmgov/tenants"
)

// Call is the life of one governed call. Begin begins it and Close ends it; between them its methods
// are called in the order of the package comment, by one goroutine. Interrupt, Progress and Why may be
// called by any. It holds all of its parts by value, so that a caller with a type of its own for a call
// can hold a Call in it. It must not be copied.
type Call struct {
	ctl    *Controller
	ctx    context.Context // of the caller, who is gone when it ends
	Policy *Policy
	ID     string
	Began  time.Time
	Spans  *tracing.Call // nil without tracing

	Tenant    *tenants.Tenant
	Key       *tenants.Key // nil if the tenant was named by somebody trusted
	Estimates *Estimates
	Pool      *Pool
	Account   *telemetry.Account

	Ask     Ask
	Request governor.Request // made of Ask
	entry   entry

	Lease     governor.Lease
	Admitted  time.Time           // zero if it was not
	Rejection *governor.Rejection // by the governor, which has counted it
	Turned    *Refusal            // by llmgov

	tries   tries
	Ending  Ending
	Failure error // for the log
	early   early
}

// Begin begins the life of a call under a policy. The context ends when the caller goes away.
func (c *Call) Begin(ctx context.Context, ctl *Controller, p *Policy, id string) {
	c.ctl = ctl
	c.ctx = ctx
	c.Policy = p
	c.ID = id
	c.Began = time.Now()
	c.tries.now = &c.tries.first
}

// Close ends whatever has not ended, and counts the call if it was turned away. A call that was
// admitted and has not ended was broken off by its caller.
func (c *Call) Close() {
	if !c.Ending.Done {
		c.End(telemetry.Cancelled, "", c.Guess())
	}
	c.ctl.ongoing.end(c.entry.only)
	c.countTurned()
	if c.Account != nil {
		c.Account.Release()
		c.Account = nil
	}
}

// Stale is returned by Route, Use and Admit if another policy came into force while the call was on
// its way, and the governor does not know its tenant in its pool any more. The call has to begin again:
// see Renew.
var Stale = &Refusal{Status: statusUnavailable, Code: CodeInternal, Message: "The policy has changed."}

// Renew lets a stale call begin again with the policy in force, so that a tenant that is in both
// policies notices nothing: after it come Identify, Route, Estimate and Admit.
func (c *Call) Renew(p *Policy) {
	if p == c.Policy {
		panic("llmgov: BUG: policy and governor know different tenants")
	}
	if c.Account != nil {
		c.Account.Release()
	}
	c.Policy = p
	c.Tenant = nil
	c.Key = nil
	c.Pool = nil
	c.Account = nil
	c.Request = governor.Request{}
}

// outdated reports whether another policy is in force than the one of the call. If one is being taken
// over, it waits for that.
func (c *Call) outdated() (is bool) {
	c.ctl.Steady(func() { is = c.Policy != c.ctl.Policy() })
	return is
}

// Refused notes that llmgov refuses the call, and remembers why for those who ask later. The governor's
// rejections are remembered already.
func (c *Call) Refused(f *Refusal) {
	c.Turned = f
	if c.Tenant != nil && c.Rejection == nil {
		c.ctl.remember(&PastRefusal{ID: c.ID, At: time.Now(), Snapshot: c.Policy.Snapshot, Tenant: c.Tenant, Request: c.Request, Said: f})
	}
}

// countTurned counts a call that llmgov turned away before the governor was asked. The governor
// counts its own refusals.
func (c *Call) countTurned() {
	if c.Turned == nil || c.Ending.Done || c.Rejection != nil {
		return
	}
	tenant := ""
	tier := ""
	pool := ""
	if c.Tenant != nil {
		tenant = c.Tenant.Name
		tier = c.Tenant.Tier
	}
	if c.Pool != nil {
		pool = c.Pool.Name
	}
	c.ctl.metrics.Turned(tenant, tier, pool, c.Turned.Code)
}
