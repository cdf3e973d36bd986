package gateway

import (
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
)

// ongoing are the calls with an Idempotency-Key that have not ended, including those that wait.
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

// ongoingCall is one call with an Idempotency-Key. A nil ongoingCall is a call without one.
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

// onlyOne refuses a call while another one with its Idempotency-Key has not ended.
func (c *call) onlyOne() *refusal {
	key := c.r.Header.Get("Idempotency-Key")
	if key == "" || c.r.Method != http.MethodPost || c.ongoing != nil {
		return nil
	}
	a := &ongoingCall{name: ongoingName{c.tenant.Name, key}, asks: c.asks(), until: time.Now().Add(c.maxWait())}
	first := c.g.ongoing.begin(a)
	if first == nil {
		c.ongoing = a
		return nil
	}
	if first.asks != a.asks {
		return invalid("idempotency-key", "A call with this Idempotency-Key and another path, query or body is still running. Use a key for one call and its retries only.")
	}
	left := max(time.Second, c.remaining(first))
	return &refusal{
		Status: http.StatusConflict, Code: admission.CodeRunning, RetryAfter: left,
		Message: fmt.Sprintf("A call with this Idempotency-Key is still running. Please try again in %.3fs.", left.Seconds()),
	}
}

// remaining is how much longer the first of two such calls is expected to take. If it waits, that
// is at most what a call coming now would wait and run.
func (c *call) remaining(first *ongoingCall) time.Duration {
	if lease := first.lease.Load(); lease != nil {
		return lease.Remaining()
	}
	wait := max(0, time.Until(first.until))
	o, _ := c.g.gov.Explain(c.req)
	switch {
	case o.Refused == nil:
		wait = min(wait, o.Wait)
	case o.Refused.RetryAfter > 0:
		wait = min(wait, o.Refused.RetryAfter)
	}
	return wait + o.Run
}

// asks is a hash of everything that makes two calls the same: path, query and body. Of a form that is
// what was read, since its boundary is drawn anew for each try.
func (c *call) asks() uint64 {
	var h maphash.Hash
	h.SetSeed(claimSeed)
	text := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	text(c.at.Path)
	text(c.r.URL.RawQuery)
	if c.form == nil {
		_, _ = h.Write(c.body)
		return h.Sum64()
	}
	for i := range c.form.Parts {
		p := &c.form.Parts[i]
		text(p.Name)
		text(p.Filename)
		text(p.Type)
		text(strconv.Itoa(len(p.Content)))
		_, _ = h.Write(p.Content)
	}
	return h.Sum64()
}
