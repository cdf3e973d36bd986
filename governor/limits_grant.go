package governor

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// limitSharing is what own limits know of those who speak for them with other processes. The lock of the
// limits guards it.
type limitSharing struct {
	all    *notices
	handle SharedLimits // towards whoever speaks for the limits

	inUse bool          // somebody speaks for the limits
	heard chan struct{} // closed when an answer comes, or none will; nil if nobody waits for one

	calledBy
}

// calledBy says which kinds of calls a limit applies to: calls that ask the store before they go,
// and calls that go within what is granted. It may be both.
type calledBy struct{ asking, granted bool }

// grantWait is how long a call may wait for a grant of what no other process has, even if its tenant's
// MaxWait is shorter: about a round trip to the store.
const grantWait = 250 * time.Millisecond

// announceLocked lists the limits so that somebody asks the store for grants, unless somebody
// does already or it limits nothing.
func (o *ownLimits) announceLocked() {
	if o.sharing != nil && !o.sharing.inUse && o.limitedLocked() {
		o.sharing.inUse = true
		o.sharing.all.list(o)
	}
}

// Refresh asks the store what other processes use of a tenant's own limits, and of those above it,
// where this process does not ask anyway because no calls come here. It waits for the answers, but
// at most for grantWait (250 ms) or until ctx ends.
func (g *Governor) Refresh(ctx context.Context, tenant string) {
	ctx, cancel := context.WithTimeout(ctx, grantWait)
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
	c := o.sharing
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
	if c := o.sharing; c.heard != nil {
		close(c.heard)
		c.heard = nil
	}
}

// askForMoreLocked notes that the grants are too small for a call of cost c, and lists the limits so
// that the store is asked for more at once.
func (o *ownLimits) askForMoreLocked(c limits.Cost) {
	if o.set.NoteLack(c) {
		o.sharing.all.list(o)
	}
}

// askAhead asks the store for a grant for a call that first has to wait elsewhere, so that the grant
// is here when the call's turn comes.
func (o *ownLimits) askAhead(now time.Time, c limits.Cost) {
	if o.sharing == nil {
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
	o.dropBudgetGrantsLocked()
}

// dropBudgetGrantsLocked gives up the grants of budgets. What others are known to have used stays.
func (o *ownLimits) dropBudgetGrantsLocked() {
	for _, a := range o.caps {
		a.granted = 0
	}
	o.applyGrantsLocked()
}

// applyGrantsLocked puts in force what this process may use of each budget.
func (o *ownLimits) applyGrantsLocked() {
	for _, a := range o.caps {
		a.applyGrant()
	}
}
