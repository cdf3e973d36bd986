package gateway

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/proxy/gateway/usage"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// How often a tenant may ask for what llmgov answers itself.
const (
	lookupEvery = 100 * time.Millisecond
	lookupBurst = 50
)

// lookups bound how often each tenant asks for what llmgov answers itself: models and usage, of
// both together. That takes nothing of a pool, so it counts in no limit of a policy; but a list is
// long, usage may ask the store, and both are made anew for each who asks.
type lookups struct {
	mu sync.Mutex
	// due is when everything that a tenant has asked for would be paid for, at the steady rate.
	due map[string]time.Time
}

// take counts a request, or returns how long to wait before the next.
func (l *lookups) take(tenant string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.due[tenant]
	if due.Before(now) {
		due = now
	}
	if wait := due.Sub(now) - (lookupBurst-1)*lookupEvery; wait > 0 {
		return wait
	}
	if len(l.due) >= 1024 { // of tenants that may be gone
		maps.DeleteFunc(l.due, func(_ string, due time.Time) bool { return !due.After(now) })
	}
	l.due[tenant] = due.Add(lookupEvery)
	return 0
}

// serveLookup answers what llmgov answers itself.
func (c *call) serveLookup() {
	switch wait := c.g.lookups.take(c.Tenant.Name, c.Began); {
	case wait > 0:
		c.refuse(&refusal{
			Status: http.StatusTooManyRequests, Code: ask.CodeRate, Kind: governor.ReasonRequests.String(), RetryAfter: wait,
			Message: "Tenant " + c.Tenant.Name + " asks for models and usage more than 10 times a second. " + comeAgain(wait),
		})
	case c.at.Usage:
		c.serveUsage()
	default:
		c.serveModels()
	}
}

// serveUsage answers GET /v1/usage from the books of the tenant that asks.
func (c *call) serveUsage() {
	c.Ask.Header = ask.Header(c.r.Header)
	c.g.gov.Refresh(c.r.Context(), c.Counted())
	c.showStanding()
	books := usage.Books{Governor: c.g.gov, Policy: c.world.Policy, Shares: c.world.shares()}
	c.w.Header().Set("Cache-Control", "no-store")
	c.writeJSON(books.Of(c.Tenant, c.Key, c.Member()))
}
