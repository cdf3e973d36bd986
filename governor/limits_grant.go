package governor

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// common is what own limits know of those who speak for them with other processes. The lock of the
// limits guards it.
type common struct {
	all    *commons
	handle SharedLimits // towards whoever speaks for the limits

	inUse bool          // somebody speaks for the limits
	heard chan struct{} // closed when an answer comes, or none will; nil if nobody waits for one

	calledBy
}

// calledBy says which kinds of calls a limit applies to: calls that ask the store before they go,
// and calls that go within a leased part. It may be both.
type calledBy struct{ asking, leased bool }

// partWait is how long a call may wait for a part that no other process has, even if its tenant's
// MaxWait is shorter: about a round trip to the store.
const partWait = 250 * time.Millisecond

// partRetry is when to retry a call for which other processes may have to give something back
// first.
const partRetry = limits.GrantRetry

// announceLocked lists the limits so that somebody asks the store for its parts, unless somebody
// does already or it limits nothing.
func (o *ownLimits) announceLocked() {
	if o.common != nil && !o.common.inUse && o.limitedLocked() {
		o.common.inUse = true
		o.common.all.list(o)
	}
}

// Refresh asks the store what other processes use of a tenant's own limits, and of those above it,
// where this process does not ask anyway because no calls come here. It waits for the answers, but
// at most for partWait (250 ms) or until ctx ends.
func (g *Governor) Refresh(ctx context.Context, tenant string) {
	ctx, cancel := context.WithTimeout(ctx, partWait)
	defer cancel()
	v := g.table.Load().tenants[tenant]
	if v == nil {
		return
	}
	var heard []<-chan struct{}
	for i := range v.access {
		for _, k := range v.access[i].chain {
			heard = append(heard, k.own.ask())
		}
	}
	for _, c := range heard {
		select {
		case <-c:
		case <-ctx.Done():
		}
	}
}

// answered is a closed channel.
var answered = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// ask makes sure that the store is asked for the limits' grants. It returns a channel that is closed
// when the answer is in force: at once if one is already, or if there is nobody to ask.
func (o *ownLimits) ask() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.common
	if c == nil || c.inUse || !o.limitedLocked() {
		return answered
	}
	o.announceLocked()
	if c.heard == nil {
		c.heard = make(chan struct{})
	}
	return c.heard
}

// hearLocked releases those who wait for an answer from the store.
func (o *ownLimits) hearLocked() {
	if c := o.common; c.heard != nil {
		close(c.heard)
		c.heard = nil
	}
}

// askForMoreLocked notes that the grants are too small for a call of cost c, and lists the limits so
// that the store is asked for more at once.
func (o *ownLimits) askForMoreLocked(c limits.Cost) {
	if o.set.NoteLack(c) {
		o.common.all.list(o)
	}
}

// askAhead asks the store for a grant for a call that first has to wait elsewhere, so that the grant
// is here when the call's turn comes.
func (o *ownLimits) askAhead(now time.Time, c limits.Cost) {
	if o.common == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advanceLocked(now)
	c = o.set.Clip(c)
	if _, fits := o.set.Fits(c); !fits {
		o.askForMoreLocked(c)
	}
}

// dropLocked leaves this process without any grant.
func (o *ownLimits) dropLocked() {
	o.set.Drop()
	o.dropCapsLocked()
}

// dropCapsLocked gives up the grants of budgets. What others are known to have used stays.
func (o *ownLimits) dropCapsLocked() {
	for _, a := range o.caps {
		a.part = 0
	}
	o.limitCapsLocked()
}

// limitCapsLocked puts in force what this process may use of each budget.
func (o *ownLimits) limitCapsLocked() {
	for _, a := range o.caps {
		a.limitCap()
	}
}
