package admission

import (
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
	asks  uint64 // Retry.Digest
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
