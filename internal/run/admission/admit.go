package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// HasWaited notes that the call waited before it asks the governor, for example for memory.
func (c *Call) HasWaited(d time.Duration) { c.entry.waited += d }

// Waited is how long the call has waited in all.
func (c *Call) Waited() time.Duration {
	if c.Cause != nil {
		return c.entry.waited + c.Cause.Waited
	}
	return max(c.Lease.Waited, c.entry.waited)
}

// Admit asks the governor for a lease, and waits for it. Afterwards the call has a lease, or is
// refused, or is Stale.
func (c *Call) Admit() *ask.Refusal {
	if f := c.Barred(0); f != nil {
		return f
	}
	if f := c.refuseDuplicate(); f != nil {
		return f
	}
	if c.entry.asked.IsZero() {
		c.entry.asked = time.Now().Add(-c.entry.waited)
	}
	lease, rej := c.Acquire(&c.Request)
	if rej != nil && rej.Reason == governor.ReasonUnknown {
		c.entry.waited += rej.Waited
		return c.unknown()
	}
	if rej != nil {
		return c.refused(rej)
	}
	if f := c.Barred(lease.Waited); f != nil {
		lease.Release()
		c.entry.waited += lease.Waited
		return f
	}
	lease.Waited += c.entry.waited
	c.holds(lease, c.entry.asked.Add(lease.Waited))
	c.Account.Admitted(c.Policy.Snapshot.CountedModel(c.Ask.Model), c.Request.Input+c.Request.Output, lease.Waited, c.Spans.Exemplar())
	if would := lease.Would; would != nil {
		c.Account.ShadowRefused(would.Reason)
		c.remind(would, true)
	}
	return nil
}

// holds takes over a lease that was given at a time.
func (c *Call) holds(lease governor.Lease, at time.Time) {
	c.Lease = lease
	c.Admitted = at
	c.entry.only.runs(lease)
}

// Send begins the call's way to the upstream, as soon as it is admitted. Afterwards it is charged as a request,
// whatever it takes.
func (c *Call) Send() {
	c.first.Began = c.Admitted
	c.first.Sent.Store(true)
}

// MayReadmit reports whether a call whose upstreams have asked for a pause can wait for its end.
func (c *Call) MayReadmit(ready time.Time) bool {
	return !c.Tenant.Shadow && c.entry.turns < mostTurns && time.Until(ready) <= c.waitLeft() && c.Barred(0) == nil
}

// waitLeft is the part of its wait that the call has left.
func (c *Call) waitLeft() time.Duration { return c.MaxWait() - time.Since(c.entry.asked) }

// Readmit gives the lease back whole and asks for another, not before a time, with the rest of the wait. It reports whether
// the call was admitted anew, and if not, when it would be; 0 is not known. The zero time is now: while all of a pool pauses, it admits
// nobody, and then in fair order.
func (c *Call) Readmit(at time.Time) (retryAfter time.Duration, ok bool) {
	c.entry.turns++
	waited := c.Lease.Waited
	c.entry.only.waits()
	c.payLost(c.Lease)
	left := c.waitLeft()
	req := c.Request
	req.MaxWait = &left
	req.Pause = max(0, time.Until(at))
	lease, rej := c.Acquire(&req)
	if rej != nil {
		return rej.RetryAfter, false
	}
	if c.Barred(lease.Waited) != nil {
		lease.Release()
		return 0, false
	}
	lease.Waited += waited
	c.holds(lease, time.Now())
	return 0, true
}

// unknown refuses a call whose tenant the governor does not know in its pool: the policy has changed, or somebody
// trusted has named a tenant in whose name nobody calls.
func (c *Call) unknown() *ask.Refusal {
	if c.outdated() {
		return Stale
	}
	return &ask.Refusal{Status: statusForbidden, Code: ask.CodeKey, Message: "Tenant " + c.Tenant.Name + " is there for its teams: it has no key, so nobody calls in its name. Name a team, or give it a key, even if no caller uses it."}
}
