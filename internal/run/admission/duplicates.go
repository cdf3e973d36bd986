package admission

import (
	"fmt"
	"time"

	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// refuseDuplicate refuses a call while another one with its key has not ended.
func (c *Call) refuseDuplicate() *ask.Refusal {
	r := &c.Ask.Retry
	if r.Key == "" || !r.Once || c.entry.only != nil {
		return nil
	}
	a := &ongoingCall{name: ongoingName{c.Tenant.Name, r.Key}, asks: r.Digest, until: time.Now().Add(c.MaxWait())}
	first := c.ctl.ongoing.begin(a)
	if first == nil {
		c.entry.only = a
		return nil
	}
	if first.asks != a.asks {
		return &ask.Refusal{
			Status: statusBadRequest, Code: ask.CodeInvalid, Param: "idempotency-key",
			Message: "A call with this Idempotency-Key and another path, query or body is still running. Use a key for one call and its retries only.",
		}
	}
	left := max(time.Second, c.remaining(first))
	return &ask.Refusal{
		Status: statusConflict, Code: ask.CodeRunning, RetryAfter: left,
		Message: fmt.Sprintf("A call with this Idempotency-Key is still running. Please try again in %.3fs.", left.Seconds()),
	}
}

// remaining is how much longer the first of two such calls is expected to take. If it waits, that
// is at most what a call coming now would wait and run.
func (c *Call) remaining(first *ongoingCall) time.Duration {
	if lease := first.lease.Load(); lease != nil {
		return lease.Remaining()
	}
	wait := max(0, time.Until(first.until))
	o, _ := c.ctl.gov.Explain(c.Request)
	switch {
	case o.Refused == nil:
		wait = min(wait, o.Wait)
	case o.Refused.RetryAfter > 0:
		wait = min(wait, o.Refused.RetryAfter)
	}
	return wait + o.Run
}
