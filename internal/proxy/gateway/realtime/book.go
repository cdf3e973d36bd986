package realtime

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// book has the leases of a session. Each response is a call with a lease of its own, held at the most
// that the response may take. To take no second slot, the session gives back the lease that it has at rest before it
// asks for one for a response, and takes it again when the last response has ended. So a session holds a slot
// and a request as long as it is open, and its responses wait and are refused as other calls are.
type book struct {
	call  Call
	terms *Terms

	mu      sync.Mutex
	lease   governor.Lease // guarded by mu, as all below; of the session itself, while it is resting
	resting bool           // no response has a lease
	open    responses
	asking  int    // responses that wait for a lease
	bound   int64  // tokens that a response may have unless it says; 0 is not known
	named   string // the name of that bound, in the version of the API that the upstream speaks
	barred  bool   // a response was cancelled since there was room
	booked  governor.Usage
	paid    int64          // micro-dollars for booked
	unpaid  governor.Usage // usage that could not be charged yet
	prompt  prompt
	spoke   bool // the first delta has come
	over    bool // everything is settled; usage that is still reported was estimated
}

func newBook(call Call, terms *Terms) *book {
	return &book{
		call:    call,
		terms:   terms,
		lease:   terms.Lease,
		resting: true,
		bound:   terms.MaxOutput,
		named:   boundKey,
	}
}

// ask acquires a lease for a response that is asked for. It waits as long as the tenant may.
func (b *book) ask(ctx context.Context, e *head.Event) *ask.Refusal {
	r := &response{ask: e.ID}
	output, bounded := e.Bound()
	b.mu.Lock()
	full := b.open.full()
	r.said = b.prompt
	r.said.add(e)
	r.prompt = b.estimate(r.said)
	if !bounded {
		output = b.bound
	}
	b.mu.Unlock()
	if full {
		return tooMany("This session has " + strconv.Itoa(mostOpen) + " responses that have not ended. Wait for one of them to end.")
	}
	return b.hold(ctx, r, output, b.terms.Request.MaxWait)
}

func tooMany(message string) *ask.Refusal {
	return &ask.Refusal{Status: http.StatusTooManyRequests, Code: ask.CodeRate, Message: message}
}

// hold exchanges the session's lease for one of a response.
func (b *book) hold(ctx context.Context, r *response, output int64, wait *time.Duration) (f *ask.Refusal) {
	if output == 0 {
		output = b.call.MostOutput()
		r.assumed = output
	}
	req := b.request()
	req.Model = b.terms.Model
	req.Input = r.prompt
	req.Output = output
	req.MaxWait = wait
	b.leaveRest()
	lease, rej := governor.Refused(b.terms.Governor.Acquire(ctx, req))
	if rej != nil {
		f = admission.RefusalOf(rej, nil)
	} else {
		f = b.call.Barred(lease.Waited)
	}
	b.mu.Lock()
	b.asking--
	over := b.over
	if f == nil && !over {
		r.lease = lease
		r.held = true
		b.open = append(b.open, r)
	}
	b.mu.Unlock()
	switch {
	case rej != nil:
		b.terms.Account.Refused(rej.Reason)
		b.rest()
	case f != nil:
		lease.Release()
		b.rest()
	case over:
		lease.Release()
	case lease.Would != nil:
		b.terms.Account.ShadowRefused(lease.Would.Reason)
	}
	return f
}

// request is the one of the session, at its upstream.
func (b *book) request() governor.Request {
	req := b.terms.Request
	req.Via = 1
	req.Listed = []string{b.call.Upstream()}
	return req
}

// priced is a lease with the cost of a usage at the upstream of the session.
func (b *book) priced(l governor.Lease, u governor.Usage) governor.Lease {
	return l.Costing(b.terms.Request.Price.MicroUSD(u))
}

// paysLocked notes a usage that is charged, and what it costs.
func (b *book) paysLocked(u governor.Usage) {
	b.booked = b.booked.Plus(u)
	b.paid += b.terms.Request.Price.MicroUSD(u)
}

// leaveRest gives back the lease of the session at rest, for a response that asks for one.
func (b *book) leaveRest() {
	b.mu.Lock()
	resting := b.lease
	b.lease = governor.Lease{}
	b.resting = false
	b.asking++
	b.mu.Unlock()
	resting.Release()
}

// rest takes a lease for the session itself, unless one of its responses has one or asks for one.
func (b *book) rest() {
	req := b.request()
	req.Forced = true // the session has had it all the time
	lease, rej := governor.Refused(b.terms.Governor.Acquire(context.WithoutCancel(b.call.Context()), req))
	if rej != nil {
		return // the gateway drains, or the policy does not know the tenant any more
	}
	b.mu.Lock()
	spare := b.over || b.resting || b.asking > 0 || b.open.held()
	if !spare {
		b.lease = lease
		b.resting = true
	}
	b.mu.Unlock()
	if spare {
		lease.Release()
	}
}

// noWait is for responses that have begun.
var noWait time.Duration

// begun notes that a response has begun. One that nobody asked for, because the server has
// detected that the user stopped speaking, needs a lease now; without room for it the refusal says why.
func (b *book) begun(ctx context.Context, id string) *ask.Refusal {
	b.mu.Lock()
	if r := b.open.asked(""); r != nil {
		r.id = id
		b.mu.Unlock()
		return nil
	}
	r := &response{id: id, said: b.prompt, prompt: b.estimate(b.prompt)}
	output := b.bound
	full := b.open.full()
	b.mu.Unlock()
	if full {
		return tooMany("This session has too many responses that have not ended.")
	}
	f := b.hold(ctx, r, output, &noWait)
	if f == nil {
		return nil
	}
	b.mu.Lock()
	b.open = append(b.open, r) // its usage is charged when it ends
	b.barred = true
	b.mu.Unlock()
	return f
}

// deltasApart is how many deltas lie between two reports to the governor.
const deltasApart = 16

// delta counts a delta of a response.
func (b *book) delta(id string) {
	b.mu.Lock()
	first := !b.spoke
	b.spoke = true
	var lease governor.Lease
	deltas := int64(0)
	if r := b.open.begun(id); r != nil {
		r.deltas++
		deltas = r.deltas
		lease = r.lease
	}
	b.mu.Unlock()
	if first {
		b.call.FirstToken()
	}
	if deltas%deltasApart == 1 {
		lease.Progress(b.call.EstimateOutput(deltas))
	}
}

// done ends a response with the usage that it reports, or with an estimate if known is false. One that was cut off says less of the next prompt than is
// known, as does one outside of the conversation, and nothing of how long answers are but that they may be longer than was believed.
func (b *book) done(e ended) {
	b.mu.Lock()
	if b.over {
		b.mu.Unlock()
		return
	}
	r := b.open.begun(e.id)
	u := e.usage
	switch {
	case !e.known && r != nil:
		u = b.unfinished(r)
	case e.known && !e.outside && (e.whole || u.Input+u.Output > b.estimate(b.prompt)):
		b.prompt.counted(u)
	}
	held := r != nil && r.held
	if r != nil {
		b.open = b.open.without(r)
	}
	if held {
		b.paysLocked(u)
	}
	b.mu.Unlock()
	if e.known && r != nil && r.assumed > 0 && u.Output > 0 && (e.whole || u.Output > r.assumed) {
		b.call.LearnOutput(u)
	}
	if !held {
		b.took(u, !e.known)
		return
	}
	b.rest()
	b.priced(r.lease, u).Settle(u)
	b.call.Took(u, !e.known)
}

// notBegun gives back the lease of a response that was asked for and that the upstream refused. Errors
// name the event that they are about if the client gave it a name; one that does not is taken to be about
// the oldest. If it was not, the response needs another lease when it begins.
func (b *book) notBegun(ask string) {
	b.mu.Lock()
	r := b.open.asked(ask)
	if r == nil || b.over {
		b.mu.Unlock()
		return
	}
	b.open = b.open.without(r)
	b.mu.Unlock()
	b.rest()
	r.lease.Release()
}

// took books usage for which there is no lease. It is booked now: at the end of the session the minutes to
// which it belongs would be over, and another minute would have to bear all of it.
func (b *book) took(u governor.Usage, estimated bool) {
	b.mu.Lock()
	over := b.over
	b.mu.Unlock()
	if over {
		return // it was estimated
	}
	booked := b.call.Charge(u, estimated)
	b.mu.Lock()
	defer b.mu.Unlock()
	if booked {
		b.paysLocked(u)
	} else { // the policy does not know the tenant any more, or the gateway drains
		b.unpaid = b.unpaid.Plus(u)
	}
}

// said adds an event of the client to the prompts of responses.
func (b *book) said(e *head.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prompt.add(e)
}

// configured takes in the session as the upstream shows it.
func (b *book) configured(session gjson.Result) {
	if !head.IsNarrow(session) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prompt.narrows()
}

// estimate is how many tokens a prompt has, as far as is known before it is counted.
func (b *book) estimate(p prompt) int64 { return p.heard + b.call.EstimatePrompt(p.said) }

// unfinished estimates the usage of a response that nobody will report.
func (b *book) unfinished(r *response) governor.Usage {
	input := max(r.prompt, r.said.heard+b.call.UnreportedPrompt(r.said.said, r.said.excerpt))
	return governor.Usage{Input: input, Output: b.call.EstimateOutput(r.deltas)}
}

// close ends the leases of unfinished responses, all but the one that is left to the call. It sets the
// lease, the usage to be charged with it, and what the whole session took and has paid.
func (b *book) close(end *End) {
	b.mu.Lock()
	b.over = true
	open := b.open
	b.open = nil
	end.Lease = b.lease
	end.Usage = b.unpaid
	has := b.resting
	b.mu.Unlock()
	for _, r := range open {
		took := b.unfinished(r)
		if r.held && has {
			b.priced(r.lease, took).Break(took)
			b.call.Took(took, true)
			b.mu.Lock()
			b.paysLocked(took)
			b.mu.Unlock()
			continue
		}
		if r.held {
			end.Lease = r.lease
			has = true
		}
		end.Usage = end.Usage.Plus(took)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	end.Total = b.booked.Plus(end.Usage)
	end.Paid = b.paid
}
