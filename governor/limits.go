package governor

import (
	"context"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/record"
)

// ownLimits is the shell around a limits.Set: one set of own limits, a tenant's over all pools or in
// one of them. It has the tenant's budgets.
type ownLimits struct {
	owner, pool string // whose limits, and in which pool; "" is over all

	sharing *limitSharing // nil = nobody else counts against the limits
	caps    []*account    // a tenant's budgets, if the limits are over all pools
	set     limits.Set
	of      *pool // of which they are an upstream's; nil for tenants' limits
}

// newOwnLimits makes limits that limit nothing yet. all is nil if they are not shared with other
// processes.
func newOwnLimits(owner, pool string, all *changes) *ownLimits {
	o := &ownLimits{owner: owner, pool: pool}
	if all == nil {
		o.set = *limits.New(false, nil)
	} else {
		o.set = *limits.New(true, func() bool { return slices.ContainsFunc(o.caps, (*account).lacksGrant) })
		all.made++
		o.sharing = &limitSharing{all: all, number: all.made}
		o.sharing.handle.own = o
		o.sharing.handle.g = all.g
	}
	return o
}

// configure changes the limits while calls run and wait.
func (o *ownLimits) configure(now time.Time, l limits.Limits, bound int, by calledBy) {
	if o.sharing != nil {
		o.sharing.calledBy = by
	}
	o.set.Configure(now, l, bound)
	if o.sharing != nil && o.sharing.sign > 0 {
		o.sharing.all.list(o) // other processes do not know these limits yet
	}
	o.applyGrants()
	o.wake() // the first in line may fit now
}

// advance brings the books to now. Grants that have expired are given up: of a budget the last
// known usage of others is still shown.
func (o *ownLimits) advance(now time.Time) {
	if o.sharing != nil && o.sharing.sign > 0 {
		o.set.Prolong(o.sharing.kept, o.sharing.all.signs[o.sharing.sign])
	}
	expired := o.set.Advance(now)
	if o.sharing == nil {
		return
	}
	for _, a := range o.caps {
		a.advance(now)
	}
	if expired {
		o.told(Told{Verb: limitsLapse})
		o.dropBudgetGrants()
	}
}

// limited reports whether there is any limit or budget.
func (o *ownLimits) limited() bool { return o.set.Limited() || len(o.caps) > 0 }

// wake lets the first call in line look again that is not asking already.
func (o *ownLimits) wake() {
	if p := o.set.Turn(); p != nil {
		p.Caller.(*waiter).wake()
	}
}

// suspend turns a booking into a hold, which counts at any time, while its call waits elsewhere.
func (o *ownLimits) suspend(now time.Time, h *limits.Hold) {
	if !h.Booked() {
		return
	}
	o.advance(now)
	o.set.Suspend(h)
}

// resume books a hold as of now, because its call starts.
func (o *ownLimits) resume(now time.Time, h *limits.Hold) {
	if h.Booked() {
		return
	}
	o.advance(now)
	o.set.Resume(h)
	o.wake() // now it can be known when this leaves the minute
}

// idle reports whether no call runs or waits, and nothing that was used of a budget, or of a limit over another time than a minute, counts
// any more.
func (o *ownLimits) idle(now time.Time, gone bool) bool {
	o.advance(now)
	return o.set.Idle() && len(o.set.WindowUses()) == 0 && unused(now, o.caps, gone)
}

// holds reports whether calls or commitments hold any of the limits. It is for what idle has brought to the present.
func (o *ownLimits) holds() bool {
	return !o.set.Idle() || slices.ContainsFunc(o.caps, func(a *account) bool { return a.pending > 0 })
}

// limitSharing connects own limits with those who speak for them with other processes.
type limitSharing struct {
	all    *changes
	number int          // as they are made
	handle SharedLimits // towards whoever speaks for the limits

	inUse bool // somebody speaks for the limits
	shut  bool // the store cannot read them, and nothing is granted
	// kept is until when grants are prolonged while the sign of life of that number is good; 0 is not at all.
	kept  time.Time
	sign  int
	heard chan struct{} // closed when an answer comes, or none will; nil if nobody waits for one

	// By earlier processes, until there is an answer: calls, and before them the use of long windows until a time.
	before  []*record.Record
	windows []limits.WindowUse
	until   time.Time

	calledBy
}

// SharedLimits are a tenant's own limits, over all pools or in one, and its budgets, as seen by whoever
// shares them with other processes (Config.SharedLimits): it reads demands, and puts
// grants in force. Other processes know a limit by its name: that of its axis or, for a budget, that of its
// present period.
type SharedLimits struct {
	// Speaker is whatever those who speak for the limits want to find again.
	Speaker any

	g   *Governor
	own *ownLimits
}

// calledBy says which kinds of calls a limit applies to: calls that ask the store before they go,
// and calls that go within grants. It may be both. closed says that some are to pools that are not open on loss.
type calledBy struct{ asking, granted, closed bool }

// grantWait is how long a call may wait for a grant that no other process has, even if its tenant's
// MaxWait is shorter: about a round trip to the store.
const grantWait = 250 * time.Millisecond

// announce lists the limits so that somebody asks the store for grants, unless somebody
// does already or it limits nothing.
func (o *ownLimits) announce() {
	if o.sharing != nil && !o.sharing.inUse && o.limited() {
		o.sharing.inUse = true
		o.sharing.all.list(o)
	}
}

// Refresh asks the store for the usage by other processes of a tenant's own limits, and of those above it,
// where this process does not ask anyway because no calls come here. It waits for the answers, but
// at most for grantWait (250 ms) or until ctx ends.
func (g *Governor) Refresh(ctx context.Context, tenant string) {
	ctx, cancel := context.WithTimeout(ctx, grantWait)
	defer cancel()
	for _, c := range g.askAll(tenant) {
		select {
		case <-c:
		case <-ctx.Done():
		}
	}
}

// askAll asks for the limits of a tenant, in all its pools, and returns what is closed with each answer.
func (g *Governor) askAll(tenant string) (heard []<-chan struct{}) {
	now := g.lock()
	defer g.unlock()
	if g.changes != nil {
		g.queueTold(Told{Verb: askedOf, Name: tenant})
	}
	return g.ask(now, tenant)
}

func (g *Governor) ask(now time.Time, tenant string) (heard []<-chan struct{}) {
	v := g.table.view(now, tenant, "")
	if v == nil {
		return nil
	}
	for _, p := range v.table.inOrder.pools {
		for _, k := range v.chain(now, p) {
			heard = append(heard, k.own.ask())
		}
	}
	return heard
}

// answered is a closed channel.
var answered = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// ask makes sure that the store is asked for the limits' grants. It returns a channel that is closed
// when the answer is in force: at once if one is already, or if there is nobody to ask.
func (o *ownLimits) ask() <-chan struct{} {
	c := o.sharing
	if c == nil || c.inUse && c.sign == 0 || !o.limited() {
		return answered
	}
	o.announce()
	o.set.NoteDenied() // so that what comes is not dropped at once
	if c.sign > 0 {    // nobody asks before long
		c.all.list(o)
	}
	if c.heard == nil {
		c.heard = make(chan struct{})
	}
	return c.heard
}

// hear releases those who wait for an answer from the store.
func (o *ownLimits) hear() {
	if c := o.sharing; c.heard != nil {
		close(c.heard)
		c.heard = nil
	}
}

// askForMore notes that the grants are too small for a call of cost c, and lists the limits so
// that the store is asked for more at once.
func (o *ownLimits) askForMore(c limits.Cost) {
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
	o.advance(now)
	c = o.set.Clip(c)
	if _, fits := o.set.Fits(c); !fits {
		o.askForMore(c)
	}
}

// overdrawn reports whether more counts here than was granted, because calls took more than they were held at.
func (o *ownLimits) overdrawn() bool {
	k, fits := o.set.Fits(limits.Cost{})
	return !fits && k < limits.Concurrency || slices.ContainsFunc(o.caps, func(a *account) bool { return a.cap.Counted() > a.granted })
}

// drop leaves this process without any grant.
func (o *ownLimits) drop() {
	o.set.Drop()
	o.dropBudgetGrants()
}

// dropBudgetGrants gives up the grants of budgets. The known usage of others stays.
func (o *ownLimits) dropBudgetGrants() {
	for _, a := range o.caps {
		a.granted = 0
	}
	o.applyGrants()
}

// applyGrants puts the grant of each budget in force.
func (o *ownLimits) applyGrants() {
	for _, a := range o.caps {
		a.applyGrant()
	}
}
