package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/affinity"
	"github.com/llmgov/llmgov/internal/lib/http1"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// firstTry chooses the upstream that the call goes to. It waits while all are busy, if
// the call may wait still.
func (c *call) firstTry() *refusal {
	for {
		ch := c.choose()
		if ch.OK {
			c.goTo(c.tries.first, ch.Index, ch.Probe)
			return nil
		}
		if !ch.Busy {
			return c.tryAnswering(ch)
		}
		if !c.admitAnew(ch.At) {
			return c.noneReady(ch)
		}
	}
}

// tryAnswering sends the call to an upstream that does not work but answers, if there is one.
func (c *call) tryAnswering(none upstreams.Choice) *refusal {
	there, _ := c.counted()
	i, ok := c.pool.set.Answering(time.Now(), there, c.tries.scope, c.Tenant.Name)
	if !ok {
		return c.noneReady(none)
	}
	c.goTo(c.tries.first, i, false)
	return nil
}

// conversation is the one to which the call belongs, if that decides where it goes.
func (c *call) conversation() affinity.Conversation {
	only := c.tries.may&(c.tries.may-1) == 0
	if only || c.pool.Affinity == tenants.AffinityNone {
		return affinity.None
	}
	id := describe.Conversation(c.r.Header, c.head.Conversation, c.pool.Affinity == tenants.AffinityMessages)
	if id == 0 {
		return affinity.None
	}
	return affinity.ConversationOf(c.Tenant.Name, id)
}

// noneReady refuses a call for which no upstream is ready.
func (c *call) noneReady(ch upstreams.Choice) *refusal {
	if c.Gone() {
		c.End(telemetry.Cancelled, "", noUsage)
		return &refusal{Status: admission.StatusClientClosed}
	}
	left := max(time.Until(ch.At), c.tries.comeBack, time.Millisecond)
	again := " " + comeAgain(left)
	if ch.Busy {
		c.Fail("busy", noUsage)
		return &refusal{
			Status: http.StatusTooManyRequests, Code: ask.CodeRate, Kind: governor.ReasonRequests.String(), RetryAfter: left,
			Message: "The upstreams of pool " + c.pool.Name + " have asked for a pause." + again,
		}
	}
	c.Fail("unavailable", noUsage)
	return &refusal{
		Status: http.StatusServiceUnavailable, Code: ask.CodeUpstream, RetryAfter: left,
		Message: "The upstreams of pool " + c.pool.Name + " did not answer of late." + again,
	}
}

// goTo begins a try, at the upstream that was chosen for it.
func (c *call) goTo(t *try, index int, probe bool) {
	c.try.leave()
	if c.tries.amend != 0 && c.try.up == c.pool.upstreams[index] {
		t.amended = c.tries.amend
		t.without = c.try.without
	}
	c.tries.amend = 0
	t.member = c.pool.set.Members[index]
	t.up = c.pool.upstreams[index]
	t.index = index
	t.model = c.pool.Upstreams[index].ModelName(c.realModel())
	t.scope = c.tries.scope
	t.without |= c.additions() & (t.amended | t.up.Additions.Refused(time.Now(), c.Tenant.Name, t.model))
	t.probe = probe
	c.BeginTry(&t.Try, t.up.Name)
	c.try = t
	c.tries.been = c.tries.been.With(index)
	c.tries.count++
	t.span = c.spanOfTry(t)
}

// send sends a call to one upstream after the other, until one of them has an answer to
// be passed on. Nothing of an answer has reached the client before it returns, and nothing
// is tried again after.
func (c *call) send() (*http.Response, error) {
	for {
		sent := time.Now()
		c.try.member.Sent(sent)
		resp, err := c.try.up.RoundTrip(c.transport(), c.outgoing())
		c.try.member.AnswerEnded(time.Now(), sent, err == nil)
		if errors.Is(err, http1.ErrNotSent) {
			c.try.Sent.Store(false)
		}
		said := c.classify(resp, err)
		c.tell(said)
		if said == upstreams.Served || said == upstreams.Abandoned || !c.tryAgain(said, resp, err) {
			return resp, err
		}
	}
}

// transport is how the try reaches its upstream. A call whose kept connection was lost gets one of its own,
// because the others may have been lost with it.
func (c *call) transport() http.RoundTripper {
	if c.tries.afresh {
		return c.g.unkept
	}
	return c.g.transport
}

// tryAgain chooses where a call goes whose try came to nothing: to another upstream, or
// to any once it has waited its turn again. The usage that the try may have caused is charged.
func (c *call) tryAgain(said upstreams.Outcome, resp *http.Response, err error) bool {
	may := c.mayRepeat(said)
	failed := said != upstreams.Stale && admission.BlamesUpstream(c.try.classOf(err))
	limited := c.pool.set.Limited()
	if failed && limited {
		c.Lease.Failed() // first, because the call may be moved to another one
	}
	ch := upstreams.Choice{}
	if may {
		ch = c.chooseNext(said, c.Guess())
	}
	switch {
	case ch.OK:
		c.Lease.Retried()
	case c.apart(): // one that others can stand in for is no sign of the pool's limit
	case c.try.overloads():
		c.Lease.Overloaded()
	case admission.Late(c.try.status), said == upstreams.Silent && c.try.classOf(err) == admission.ReasonTimeout:
		c.Lease.Late()
	}
	if failed && !limited && !ch.OK {
		c.Lease.Failed()
	}
	if !may || said == upstreams.Lacking && !ch.OK {
		return false
	}
	c.Lost(c.Guess()) // before the lease is given back, which pays for it
	c.try.Refused = true
	for !ch.OK {
		at := c.readyAt(ch, said)
		if at.IsZero() || !c.admitAnew(at) {
			return false
		}
		c.tries.been = 0
		ch = c.choose()
	}
	c.pool.Metrics.UpstreamError(c.try.classOf(err))
	if resp != nil {
		_ = resp.Body.Close()
	}
	c.goTo(&try{}, ch.Index, ch.Probe)
	return true
}

// readyAt is when a call may wait its turn again for which no upstream was found; zero if that is of no use.
func (c *call) readyAt(none upstreams.Choice, said upstreams.Outcome) time.Time {
	if none.Busy {
		return none.At
	}
	at, only := c.pool.set.Pause(time.Now(), c.tries.may, c.tries.scope)
	if said != upstreams.Busy && !only {
		return time.Time{}
	}
	return at
}

// mayRepeat reports whether sending a call again can do no harm: it has not arrived, was
// answered with a refusal, or makes nothing that would then be there twice. (Calls to
// objects have one upstream, so they are repeated there alone, after a pause.)
func (c *call) mayRepeat(said upstreams.Outcome) bool {
	if said != upstreams.Silent && said != upstreams.Stale || !c.try.Sent.Load() {
		return true
	}
	return !c.route.ToObjects() && (!c.route.Stores || c.head.Unstored)
}

// admitAnew gives the lease back whole and asks for another, with the rest of the
// wait: the pool admits nobody until its upstreams are ready again, and then in fair
// order. If it goes on with other calls meanwhile, the call stays out of it until its own upstreams are ready.
// It reports false when that is too late, or the governor knows that it will be.
func (c *call) admitAnew(ready time.Time) bool {
	c.tries.comeBack = time.Until(ready)
	if !c.MayReadmit(ready) {
		return false
	}
	c.g.tellHealth(c.pool) // whoever knew it first may be on the way to tell the governor
	if c.pool.set.Held(time.Now(), c.tries.may) {
		ready = time.Time{}
	}
	c.Request.Via = uint64(c.tries.may)
	c.Request.Listed = c.pool.Listed()
	if again, ok := c.Readmit(ready); !ok {
		c.tries.comeBack = max(c.tries.comeBack, again)
		return false
	}
	c.tries.comeBack = 0
	c.follow()
	c.showStanding()
	c.showQueued(c.Lease.Waited)
	return true
}

// follow takes the pool's upstreams as they are now, for who is not bound to one of them:
// another policy may be in force than when the call came.
func (c *call) follow() {
	if p, there := c.g.world.Load().poolNamed(c.pool.Name); there && !c.tries.pinned {
		c.pool = p
		c.tries.may = c.serving()
	}
}
