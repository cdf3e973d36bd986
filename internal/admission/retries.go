package admission

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
)

// ongoing are the calls with a Retry.Key that have not ended, including those that wait.
// While one is there, no other with the same tenant and key is let in. Answers are not kept, so a
// call that comes after the end is served anew. The memory it takes is that of calls in flight. The
// zero value is ready to use.
type ongoing struct {
	mu     sync.Mutex
	byName map[ongoingName]*ongoingCall
}

// ongoingName is the names themselves, not a hash of them, by which one tenant's key could stand in
// another's way.
type ongoingName struct{ tenant, key string }

// ongoingCall is one call with a Retry.Key. A nil ongoingCall is a call without one.
type ongoingCall struct {
	name  ongoingName
	asks  uint64 // hash of what it asks for
	until time.Time
	lease atomic.Pointer[governor.Lease] // once it is admitted
}

// begin lets a call in, or returns the one that is in its way.
func (s *ongoing) begin(a *ongoingCall) (first *ongoingCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.byName[a.name]; first != nil {
		return first
	}
	if s.byName == nil {
		s.byName = map[ongoingName]*ongoingCall{}
	}
	s.byName[a.name] = a
	return nil
}

// end forgets a call. It does nothing for a call that was not let in or has ended.
func (s *ongoing) end(a *ongoingCall) {
	if a == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[a.name] == a {
		delete(s.byName, a.name)
	}
}

// waits notes that a call waits again.
func (a *ongoingCall) waits() {
	if a != nil {
		a.lease.Store(nil)
	}
}

// runs notes that a call waits no longer.
func (a *ongoingCall) runs(l governor.Lease) {
	if a != nil {
		kept := l // &l would allocate l for every call, even without a key
		a.lease.Store(&kept)
	}
}

// onlyOne refuses a call while another one with its key has not ended.
func (c *Call) onlyOne() *Refusal {
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
		return &Refusal{
			Status: statusBadRequest, Code: CodeInvalid, Param: "idempotency-key",
			Message: "A call with this Idempotency-Key and another path, query or body is still running. Use a key for one call and its retries only.",
		}
	}
	left := max(time.Second, c.remaining(first))
	return &Refusal{
		Status: statusConflict, Code: CodeRunning, RetryAfter: left,
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
