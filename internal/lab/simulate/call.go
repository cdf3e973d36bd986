package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/slots"
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
	handle   escrow.Handle
	queued   bool
	gone     bool // with its process

	started time.Duration // when it was admitted, and sent to the model server,
	served  time.Duration // and when that began to serve it
	sight   slots.Sight   // of the limit, as it was sent
	counted int64         // of its tokens, those that were reported as used
	learn   lesson
	talk    *talk // nil for a call that belongs to no conversation
	before  int64 // of its input, what was said before
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
	s := c.site
	if w.cutOff(s) {
		w.sendElsewhere(c)
		return
	}
	expect, run := s.guess.first(c)
	call := escrow.Call{
		Leaf:       s.tree.leaves[c.leaf],
		Background: w.tree.Leaves[c.leaf].Background,
		Most:       c.cost(w.most(c)),
		Input:      c.input,
		Expect:     expect,
		Speed:      s.guess.speed(c, 0),
		Run:        run,
		MaxWait:    w.maxWait(c),
		Claim:      w.claim(c),
		Via:        s.books.Mask(uint64(w.tree.Leaves[c.leaf].Via)),

		Conversation: w.conversation(c),
	}
	h, answer := s.pool.Offer(w.clock(), call)
	c.handle = h
	lacks := answer.Verdict != escrow.Admitted && s.limit.lacks(w.clock(), &call, answer.Verdict == escrow.Queued)
	switch answer.Verdict {
	case escrow.Admitted:
		w.start(c)
	case escrow.Queued:
		c.queued = true
		s.waiting[h] = c
		s.keep(c)
		until := w.now + answer.Patience
		w.agenda.plan(task{at: min(until, c.deadline), step: expire, call: c, stamp: c.attempts})
	default:
		w.refused(c, answer)
	}
	if lacks && s.desk != nil {
		s.desk.lacking = true
		w.askForSlots(s)
	}
}

// maxWait is how long a call says that it will queue.
func (w *world) maxWait(c *call) time.Duration {
	if w.Refuse != scenario.Wait {
		return 0
	}
	if c.worker {
		return workerWait
	}
	return c.deadline - w.now
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

// expire ends a call's time in the queue.
func (w *world) expire(t task) {
	c := t.call
	if !c.queued || c.attempts != t.stamp {
		return
	}
	c.queued = false
	delete(c.site.waiting, c.handle)
	c.site.drop(c)
	if w.Refuse == scenario.Wait || c.deadline <= w.now {
		// The caller goes away by itself. An open one would be refused just then.
		if !c.site.pool.Cancel(w.clock(), c.handle) {
			panic("llmgov: BUG: the pool does not know a call that waits")
		}
		if w.Refuse == scenario.Wait && !c.worker {
			w.trace.add(w.now, Refused, c.id, 0)
		}
		return
	}
	answer, ok := c.site.pool.Refuse(w.clock(), c.handle, 0)
	if !ok {
		panic("llmgov: BUG: the pool does not know a call that waits")
	}
	w.refused(c, answer)
}

// refused sends a caller away, who may come back before its deadline.
func (w *world) refused(c *call, answer escrow.Answer) {
	hint := max(time.Second, (answer.Wait + time.Second - 1).Truncate(time.Second)) // Retry-After has whole seconds
	w.trace.Events = append(w.trace.Events, Occurrence{
		At: w.now, Kind: Refused, Request: c.id, Hint: hint, Ticket: answer.Ticket,
	})
	if w.Refuse == scenario.SDK && c.attempts > sdkRetries {
		w.askAnew(c)
		return
	}
	if answer.Wait == 0 && w.Refuse == scenario.SDK {
		hint = 0 // nobody told it
	}
	back := w.now + w.comeBack(c, hint)
	if w.Refuse == scenario.Wait && !c.worker || back >= c.deadline {
		return
	}
	w.agenda.plan(task{at: back, step: retry, call: c})
}

// askAnew sends a worker for its next request.
func (w *world) askAnew(c *call) {
	if c.worker {
		think := between(w.leafs[c.leaf].manners, thinkLeast, thinkMost)
		w.agenda.plan(task{at: w.now + think, step: ask, leaf: c.leaf, phase: c.phase, talk: c.talk})
	}
}

// comeBack is how long a refused caller stays away.
func (w *world) comeBack(c *call, hint time.Duration) time.Duration {
	rng := w.leafs[c.leaf].manners
	switch {
	case w.Refuse == scenario.DenyHinted, w.Refuse == scenario.SDK && hint > 0 && hint <= sdkObeys:
		return hint + between(rng, lateLeast, lateMost)
	case w.Refuse == scenario.SDK:
		base := sdkFirst << (c.attempts - 1)
		return base - between(rng, 0, base/4)
	}
	base := min(backoffFirst<<min(c.attempts-1, 8), backoffMost)
	return base/2 + between(rng, 0, base)
}

// start sends a call that was admitted. It reports whether the call has ended already.
func (w *world) start(c *call) (ended bool) {
	c.queued = false
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
	c.site.guess.start(c)
	c.sight = c.site.limit.sent(c.site.tree.leaves[c.leaf], w.tree.Leaves[c.leaf].Background)
	return w.send(c)
}

// serve begins a call's service. It reports whether the call has ended already.
func (w *world) serve(c *call) (ended bool) {
	c.served = w.now
	if c.run <= 0 {
		w.finish(c)
		return true
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
	return false
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

// beat reports a stream's progress to the pool, as the gateway does.
func (w *world) beat(c *call) {
	produced := w.produced(c)
	if w.Pool.Accounting == escrow.Production {
		w.use(c, c.input+produced)
	}
	expect, run := c.site.guess.again(c, produced, w.now-c.started)
	c.site.pool.Progress(w.clock(), c.handle, escrow.Progress{
		Taken: c.input + produced, Expect: expect, Run: run, Speed: c.site.guess.speed(c, w.now-c.started),
	})
	if next := w.now + beatEvery; next < c.served+c.run {
		w.agenda.plan(task{at: next, step: beat, call: c})
	}
}

// first is the first token of a call.
func (w *world) first(c *call) {
	w.trace.add(w.now, First, c.id, 0)
	c.site.limit.observe(w.clock(), c)
}

// finish ends a call.
func (w *world) finish(c *call) {
	w.served(c)
	c.site.limit.ended(w.clock(), c)
	c.site.guess.end(c)
	c.site.drop(c)
	w.remember(c)
	w.trace.add(w.now, Settled, c.id, c.tokens())
	w.use(c, c.tokens())
	if !c.site.pool.Settle(w.clock(), c.handle, c.cost(c.tokens())) {
		panic("llmgov: BUG: the pool does not know a call that runs")
	}
	w.askAnew(c)
}
