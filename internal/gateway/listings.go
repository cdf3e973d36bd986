package gateway

import (
	"maps"
	"sync"
	"time"
)

// How often a tenant may ask for what is answered from memory.
const (
	listingEvery = 100 * time.Millisecond
	listingBurst = 50
)

// listings bound how often each tenant asks for the list of models. That reaches no upstream, so no
// shared limit counts it; but the list is long, and made anew for each request.
type listings struct {
	mu sync.Mutex
	// due is when everything that a tenant has asked for would be paid for, at the steady rate.
	due map[string]time.Time
}

// take counts a request, or returns how long to wait before the next.
func (l *listings) take(tenant string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.due[tenant]
	if due.Before(now) {
		due = now
	}
	if wait := due.Sub(now) - (listingBurst-1)*listingEvery; wait > 0 {
		return wait
	}
	if len(l.due) >= 1024 { // of tenants that may be gone
		maps.DeleteFunc(l.due, func(_ string, due time.Time) bool { return !due.After(now) })
	}
	l.due[tenant] = due.Add(listingEvery)
	return 0
}
