package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// call is one request on its way, from its first attempt to its end.
type call struct {
	sample
	id       int32
	leaf     int32
	phase    int32
	worker   bool
	site     *site         // that it came to; nil while it is at none
	deadline time.Duration // when its caller gives up
	attempts int32
	queued   bool
	left     bool // its caller gave up
	gone     bool // with its process

	leave   func() // the queue
	lease   governor.Lease
	refusal *governor.Refusal // of the last attempt; nil if it was admitted

	started time.Duration // when it was admitted, and sent to the model server,
	served  time.Duration // and when that began to serve it
	counted int64         // of its tokens, those that were reported as used
	talk    *talk         // nil for a call that belongs to no conversation
	before  int64         // of its input, what was said before
}

func (c *call) tokens() int64 { return c.input + c.output }

// cost is what so many tokens of the call count for.
func (c *call) cost(tokens int64) escrow.Cost {
	input := min(tokens, c.input)
	return escrow.Cost{escrow.Tokens: tokens, escrow.Requests: 1, escrow.Input: input, escrow.Output: tokens - input}
}

// most is the declared maximum of the call.
func (w *world) most(c *call) int64 {
	if w.Estimates == scenario.Exact {
		return c.tokens()
	}
	return c.input + c.maxOutput
}

// request makes a new one.
func (w *world) request(t task, at *site, deadline time.Duration) *call {
	l := &w.tree.Leaves[t.leaf]
	factor := w.factor(int(t.leaf), w.now)
	s := drawSample(&l.Work, w.leafs[t.leaf].arrivals, factor)
	if ph := &w.phases[t.leaf][t.phase]; ph.Kind == scenario.Recorded {
		s.replay(&ph.Calls[t.row], factor)
	}
	c := &call{
		sample:   s,
		id:       int32(len(w.trace.Requests)),
		leaf:     t.leaf,
		phase:    t.phase,
		site:     at,
		deadline: deadline,
	}
	w.continueTalk(c, t.talk)
	w.trace.Requests = append(w.trace.Requests, Request{
		Tenant: c.leaf, At: w.now, Tokens: c.tokens(), Input: c.input, Run: c.run, Node: at.number(),
	})
	return c
}

// offer is one attempt.
func (w *world) offer(c *call) {
	c.attempts++
	w.trace.add(w.now, Offered, c.id, c.tokens())
	c.queued = true
	c.site.gate.ask(c)
	if c.queued {
		c.site.keep(c)
		w.agenda.plan(task{at: c.deadline, step: expire, call: c, stamp: c.attempts})
	}
	w.askForSlots(c.site)
}

// maxWait is how long a call says that it will queue, where callers wait. Its caller goes away just before it would be refused, so that no
// place is kept for it.
func (w *world) maxWait(c *call) time.Duration {
	if c.worker {
		return workerWait
	}
	return c.deadline - w.now + 1
}

// claim is how callers that come back are known: by the retry count that the
// SDKs send which obey Retry-After.
func (w *world) claim(c *call) escrow.Claim {
	switch {
	case w.Refuse != scenario.DenyHinted && w.Refuse != scenario.SDK:
		return escrow.Claim{}
	case c.attempts > 1:
		return escrow.Claim{Retry: escrow.RetryAgain}
	}
	return escrow.Claim{Retry: escrow.RetryFirst}
}

// expire has a caller that waits go away.
func (w *world) expire(t task) {
	if c := t.call; c.queued && c.attempts == t.stamp {
		c.left = true
		c.leave()
	}
}

// gaveUp is a call whose caller went away while it waited.
func (w *world) gaveUp(c *call) {
	c.site.drop(c)
	if w.Refuse == scenario.Wait && !c.worker {
		w.trace.add(w.now, Refused, c.id, 0)
	}
}

// refused sends a caller away, who may come back before its deadline.
func (w *world) refused(c *call) {
	rej := c.refusal
	hint := max(time.Second, (rej.RetryAfter + time.Second - 1).Truncate(time.Second)) // Retry-After has whole seconds
	w.trace.Events = append(w.trace.Events, Occurrence{At: w.now, Kind: Refused, Request: c.id, Hint: hint, Ticket: rej.Kept})
	elsewhere := rej.Reason == governor.ReasonStoreLost
	switch {
	case elsewhere: // also who waits, to whichever node it is sent to then
		c.site = nil
	case w.Refuse == scenario.SDK && c.attempts > sdkRetries:
		w.askAnew(c)
		return
	case rej.RetryAfter == 0 && w.Refuse == scenario.SDK:
		hint = 0 // nobody told it
	case w.Refuse == scenario.Wait && !c.worker:
		return
	}
	if back := w.now + w.comeBack(c, hint, elsewhere); back < c.deadline {
		w.agenda.plan(task{at: back, step: retry, call: c})
	}
}

// askAnew sends a worker for its next request.
func (w *world) askAnew(c *call) {
	if c.worker {
		think := between(w.leafs[c.leaf].manners, thinkLeast, thinkMost)
		w.agenda.plan(task{at: w.now + think, step: ask, leaf: c.leaf, phase: c.phase, talk: c.talk})
	}
}

// comeBack is how long a refused caller stays away. One that is sent elsewhere does as it is told.
func (w *world) comeBack(c *call, hint time.Duration, elsewhere bool) time.Duration {
	rng := w.leafs[c.leaf].manners
	switch {
	case elsewhere, w.Refuse == scenario.DenyHinted, w.Refuse == scenario.SDK && hint > 0 && hint <= sdkObeys:
		return hint + between(rng, lateLeast, lateMost)
	case w.Refuse == scenario.SDK:
		base := sdkFirst << (c.attempts - 1)
		return base - between(rng, 0, base/4)
	}
	base := min(backoffFirst<<min(c.attempts-1, 8), backoffMost)
	return base/2 + between(rng, 0, base)
}

// start sends a call that was admitted.
func (w *world) start(c *call) {
	c.started = w.now
	w.trace.add(w.now, Admitted, c.id, w.most(c))
	w.noteUpstream(c)
	w.recall(c)
	switch w.Pool.Accounting {
	case escrow.AdmitMax:
		w.use(c, w.most(c))
	case escrow.Production:
		w.use(c, c.input)
	}
	w.send(c)
}

// serve begins a call's service.
func (w *world) serve(c *call) {
	c.served = w.now
	if c.run <= 0 {
		w.finish(c)
		return
	}
	c.site.keep(c)
	if w.Pool.Knee > 0 && c.class >= 0 {
		w.agenda.plan(task{at: w.now + c.firstToken, step: first, call: c})
	}
	end := w.now + c.run
	if w.now+beatEvery < end {
		w.agenda.plan(task{at: w.now + beatEvery, step: beat, call: c})
	}
	w.agenda.plan(task{at: end, step: finish, call: c})
}

// use counts tokens until the call has used so many in all.
func (w *world) use(c *call, inAll int64) {
	if inAll != c.counted {
		w.trace.add(w.now, Used, c.id, inAll-c.counted)
		c.counted = inAll
	}
}

// produced is how much output has come by now.
func (w *world) produced(c *call) int64 {
	if c.served < c.started { // it waits at the server
		return 0
	}
	flowing := w.now - c.served - c.firstToken
	if flowing <= 0 || c.speed <= 0 {
		return 0
	}
	return min(int64(flowing.Seconds()*c.speed), c.output)
}

// beat reports a stream's progress to the governor, as the gateway does.
func (w *world) beat(c *call) {
	produced := w.produced(c)
	if w.Pool.Accounting == escrow.Production {
		w.use(c, c.input+produced)
	}
	if w.now >= c.served+c.firstToken {
		c.lease.Progress(produced)
	}
	if next := w.now + beatEvery; next < c.served+c.run {
		w.agenda.plan(task{at: next, step: beat, call: c})
	}
}

// first is the first token of a call.
func (w *world) first(c *call) {
	w.trace.add(w.now, First, c.id, 0)
	c.lease.Progress(0)
}

// finish ends a call.
func (w *world) finish(c *call) {
	w.served(c)
	c.site.drop(c)
	w.remember(c)
	w.trace.add(w.now, Settled, c.id, c.tokens())
	w.use(c, c.tokens())
	c.site.gate.end(c, c.tokens(), true)
	w.askAnew(c)
}
