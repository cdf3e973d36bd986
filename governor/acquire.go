package governor

import "context"

// Acquire asks for one call: the tenant's own limits first, then the budgets, then
// the pool's share. It is admitted with all of them or refused with none; while it waits it may hold some. It waits for limits and share, in all up to
// the tenant's MaxWait or what the request allows; what a
// budget has no room for is refused at once. A deadline of ctx is a MaxWait, too. A call
// whose turn is foreseen to come later is refused at once. The lease it returns
// must be ended by Settle, Break, Charge or Release; the first of them counts.
//
// The error is a [*Refusal], which is an [ErrRefused]. If ctx has ended, it is ctx's error as well.
//
// It takes no allocation when nobody waits.
func (g *Governor) Acquire(ctx context.Context, req Request) (Lease, error) {
	if until, ok := ctx.Deadline(); ok {
		req.waitUntil(until)
	}
	lease, rej := g.acquire(ctx, &req)
	if rej == nil {
		return lease, nil
	}
	if over := endOf(ctx); over != nil {
		rej = rej.Abandoned(over)
	}
	return lease, rej
}

func (g *Governor) acquire(ctx context.Context, req *Request) (Lease, *Refusal) {
	c := call{g: g, req: *req}
	c.begin(g.lock())
	if !c.goOn(woken) {
		p := g.park(c)
		g.unlock()
		p.hear(ctx)
		if p.concludes() {
			return p.lease, p.rej
		}
		p.now = g.lock() // it has waited until now, however late it was woken
		return p.end()
	}
	return c.end()
}

// end concludes a call that is decided, and gives the lock back.
func (c *call) end() (Lease, *Refusal) {
	c.conclude()
	c.g.unlock()
	if !c.g.recorded && c.g.events.listened() {
		c.g.events.tell(c.told())
	}
	return c.lease, c.rej
}

// hear returns when the call is decided, which it is soon after ctx has ended.
func (p *parked) hear(ctx context.Context) {
	select {
	case <-p.decided:
	case <-ctx.Done():
		p.g.lock()
		p.withdraw()
		p.g.unlock()
		<-p.decided
	}
}

// withdraw says that the caller has gone.
func (p *parked) withdraw() {
	if p.ended || p.gone {
		return
	}
	p.g.queueDetail(Event{Kind: EventLeft, Call: p.number})
	p.gone = true
	p.wake()
}

// Ask is Acquire for callers that do not block, on a governor that is Recorded, or has neither Journal nor Observer. done is called with
// the decision, at once or later, within an instant; it must not ask the governor for anything.
// leave says that the caller went away; if the call still waits, done is called for it as well.
func (g *Governor) Ask(req Request, done func(Lease, *Refusal)) (leave func()) {
	c := call{g: g, req: req}
	c.begin(g.lock())
	defer g.unlock()
	if c.goOn(woken) {
		c.conclude()
		done(c.lease, c.rej)
		return func() {}
	}
	p := g.park(c)
	p.done = done
	return func() {
		g.lock()
		defer g.unlock()
		p.withdraw()
	}
}
