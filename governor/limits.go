package governor

import (
	"slices"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// ownLimits is the shell around a limits.Set: one set of own limits, a tenant's over all pools or in
// one of them. It has the lock, and the tenant's budgets.
type ownLimits struct {
	owner, pool string // whose limits, and in which pool; "" is over all

	mu      sync.Mutex
	set     limits.Set
	caps    []*account    // a tenant's budgets, if the limits are over all pools
	sharing *limitSharing // nil = nobody else counts against the limits
}

// newOwnLimits makes limits that limit nothing yet. all is nil if they are not shared with other
// processes.
func newOwnLimits(owner, pool string, all *notices) *ownLimits {
	o := &ownLimits{owner: owner, pool: pool}
	o.set = *limits.New(all != nil, func() bool { return slices.ContainsFunc(o.caps, (*account).lacksGrant) })
	if all != nil {
		o.sharing = &limitSharing{all: all}
		o.sharing.handle.own = o
	}
	return o
}

// configure changes the limits while calls run and wait.
func (o *ownLimits) configure(now time.Time, l Limits, bound int, by calledBy) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sharing != nil {
		o.sharing.calledBy = by
	}
	o.set.Configure(now, l.axes(), bound)
	o.applyGrantsLocked()
	o.wakeLocked() // the first in line may fit now
}

// axes are the limits by axis.
func (l Limits) axes() [limits.Axes]int64 {
	return [limits.Axes]int64{
		limits.Requests: l.RPM, limits.Tokens: l.TPM, limits.Input: l.ITPM, limits.Output: l.OTPM, limits.Concurrency: l.Concurrency,
	}
}

// advanceLocked brings the books to now. Grants that have expired are given up: of a budget the last
// known figure of what others used is still shown.
func (o *ownLimits) advanceLocked(now time.Time) {
	expired := o.set.Advance(now)
	if o.sharing == nil {
		return
	}
	for _, a := range o.caps {
		a.advance(now)
	}
	if expired {
		o.dropBudgetGrantsLocked()
	}
}

// limitedLocked reports whether there is any limit or budget.
func (o *ownLimits) limitedLocked() bool { return o.set.Limited() || len(o.caps) > 0 }

// wakeLocked lets the first call in line look again that is not asking already.
func (o *ownLimits) wakeLocked() {
	if p := o.set.Turn(); p != nil {
		p.Caller.(*waiter).wake()
	}
}

// suspend turns a booking into a hold, which counts at any time, while its call waits elsewhere.
func (o *ownLimits) suspend(now time.Time, h *limits.Hold) {
	if !h.Booked() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advanceLocked(now)
	o.set.Suspend(h)
}

// resume books a hold as of now, because its call starts.
func (o *ownLimits) resume(now time.Time, h *limits.Hold) {
	if h.Booked() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advanceLocked(now)
	o.set.Resume(h)
	o.wakeLocked() // now it can be known when this leaves the minute
}

// idle reports whether no call runs or waits, and nothing that was used of a budget counts any
// more.
func (o *ownLimits) idle(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.set.Idle() && unused(now, o.caps)
}
