package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/head"
)

// Each response of a session is a call with a lease of its own, held at what the response may take. To
// take no second slot, the session gives back the lease that it has at rest before it asks for
// one for a response, and takes it again when the last response has ended. So a session holds a slot and
// a request as long as it is open, and its responses wait and are refused as other calls are.

// mostOpen bounds how many responses of a session may be open. Servers run one at a time, and some of
// those outside of the conversation.
const mostOpen = 16

// response is one response of a session: asked for, or in course.
type response struct {
	id     string // "" until it has begun
	ask    string // the event_id with which it was asked for; "" if it has none
	lease  governor.Lease
	held   bool // false if the limits had no room for it
	prompt int64
	deltas int64
}

// ask holds what a response may take that the client asks for. It waits as long as the tenant may.
func (s *session) ask(ctx context.Context, e *head.Event) *refusal {
	r := &response{ask: e.ID}
	output, bounded := e.Bound()
	s.mu.Lock()
	full := len(s.open) >= mostOpen
	r.prompt = s.promptLocked(tokens.Measure(e.Text).Size)
	if !bounded {
		output = s.bound
	}
	s.mu.Unlock()
	if full {
		return &refusal{
			Status: http.StatusTooManyRequests, Code: admission.CodeRate,
			Message: "This session has " + strconv.Itoa(mostOpen) + " responses that have not ended. Wait for one of them to end.",
		}
	}
	if rej := s.hold(ctx, r, output, s.c.req.MaxWait); rej != nil {
		return admission.Rejected(rej)
	}
	return nil
}

// hold exchanges the session's lease for one of a response.
func (s *session) hold(ctx context.Context, r *response, output int64, wait *time.Duration) *governor.Rejection {
	if output == 0 {
		output = s.c.pool.DefaultMaxOutput
	}
	req := s.c.req
	req.Model = s.c.head.Model
	req.Input = r.prompt
	req.Output = output
	req.MaxWait = wait
	s.mu.Lock()
	resting := s.lease
	s.lease = governor.Lease{}
	s.resting = false
	s.asking++
	s.mu.Unlock()
	resting.Release()
	lease, rej := s.c.g.gov.Acquire(ctx, req)
	s.mu.Lock()
	s.asking--
	over := s.over
	if rej == nil && !over {
		r.lease = lease
		r.held = true
		s.open = append(s.open, r)
	}
	s.mu.Unlock()
	switch {
	case rej != nil:
		s.c.account.Refused(rej.Reason)
		s.rest()
	case over:
		lease.Release()
	case lease.Would != nil:
		s.c.account.ShadowRefused(lease.Would.Reason)
	}
	return rej
}

// rest takes a lease for the session itself, unless one of its responses has one or asks for one.
func (s *session) rest() {
	req := s.c.req
	req.Forced = true // the session has had it all the time
	lease, rej := s.c.g.gov.Acquire(context.WithoutCancel(s.c.r.Context()), req)
	if rej != nil {
		return // the gateway drains, or the policy does not know the tenant any more
	}
	s.mu.Lock()
	spare := s.over || s.resting || s.asking > 0 || slices.ContainsFunc(s.open, func(r *response) bool { return r.held })
	if !spare {
		s.lease = lease
		s.resting = true
	}
	s.mu.Unlock()
	if spare {
		lease.Release()
	}
}

// noWait is for responses that have begun.
var noWait time.Duration

// begun notes that a response has begun. One that nobody asked for, because the server has
// detected that the user stopped speaking, needs a lease now; without room for it the refusal says why.
func (s *session) begun(ctx context.Context, id string) *refusal {
	s.mu.Lock()
	s.active++
	for _, r := range s.open {
		if r.id == "" {
			r.id = id
			s.mu.Unlock()
			return nil
		}
	}
	r := &response{id: id, prompt: s.promptLocked(tokens.Size{})}
	output := s.bound
	full := len(s.open) >= mostOpen
	s.mu.Unlock()
	if full {
		return &refusal{Status: http.StatusTooManyRequests, Code: admission.CodeRate, Message: "This session has too many responses that have not ended."}
	}
	rej := s.hold(ctx, r, output, &noWait)
	if rej == nil {
		return nil
	}
	s.mu.Lock()
	s.open = append(s.open, r) // what it takes is charged when it ends
	s.barred = true
	s.mu.Unlock()
	return admission.Rejected(rej)
}

// delta counts a delta of a response.
func (s *session) delta(id string) {
	s.mu.Lock()
	r := s.findLocked(id)
	first := !s.spoke
	s.spoke = true
	var lease governor.Lease
	deltas := int64(0)
	if r != nil {
		r.deltas++
		deltas = r.deltas
		lease = r.lease
	}
	s.mu.Unlock()
	if first {
		s.c.noteFirst()
	}
	if deltas%deltasApart == 1 {
		lease.Progress(s.c.outputOf(deltas))
	}
}

// deltasApart is how many deltas lie between two reports to the governor.
const deltasApart = 16

// findLocked finds an open response; the first one that has begun if the upstream does not say which.
func (s *session) findLocked(id string) *response {
	i := slices.IndexFunc(s.open, func(r *response) bool { return r.id != "" && (id == "" || r.id == id) })
	if i < 0 {
		return nil
	}
	return s.open[i]
}

// done ends a response with the usage that it reports, or with an estimate.
func (s *session) done(id string, usage gjson.Result) {
	s.mu.Lock()
	r := s.findLocked(id)
	if s.over {
		s.mu.Unlock()
		return
	}
	u := governor.Usage{}
	switch {
	case usage.IsObject():
		u = realtimeUsage(usage)
		s.heard = u.Input + u.Output // the next prompt has both
		s.said = tokens.Size{}
	case r != nil:
		u = s.unfinished(r)
	}
	held := r != nil && r.held
	if r != nil {
		s.open = slices.DeleteFunc(s.open, func(o *response) bool { return o == r })
	}
	if held {
		s.booked = s.booked.Plus(u)
	}
	s.mu.Unlock()
	if !held {
		s.took(u)
		return
	}
	s.rest()
	r.lease.Settle(u)
	s.c.account.Took(u)
}

// notBegun gives back the lease of a response that was asked for and that the upstream refused. Errors
// name the event that they are about if the client gave it a name; one that does not is taken to be about
// the oldest. If it was not, the response needs another lease when it begins.
func (s *session) notBegun(ask string) {
	s.mu.Lock()
	i := slices.IndexFunc(s.open, func(r *response) bool { return r.id == "" && (ask == "" || r.ask == ask) })
	if i < 0 || s.over {
		s.mu.Unlock()
		return
	}
	r := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	s.mu.Unlock()
	s.rest()
	r.lease.Release()
}

// took books what was used and no lease holds. It is booked now: at the end of the session the minutes to
// which it belongs would be over, and another minute would have to bear all of it.
func (s *session) took(u governor.Usage) {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over {
		return // what was left was estimated
	}
	booked := s.c.charge(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	if booked {
		s.booked = s.booked.Plus(u)
	} else { // the policy does not know the tenant any more, or the gateway drains
		s.usage = s.usage.Plus(u)
	}
}

// promptLocked estimates the prompt of the next response, given the size of what only that one adds.
func (s *session) promptLocked(more tokens.Size) int64 {
	return s.heard + s.c.estimates.Prompts.Estimate(s.c.head.Model, s.said.Plus(more))
}

// unfinished is what a response took whose usage nobody will report.
func (s *session) unfinished(r *response) governor.Usage {
	return governor.Usage{Input: r.prompt, Output: s.c.outputOf(r.deltas)}
}

// noteSaid notes what an event of the client adds to the prompts of responses.
func (s *session) noteSaid(e *head.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Kind == head.EventAppend {
		s.said[tokens.Sound] += int64(len(e.Text)) * tokens.Scale / soundBytes
	} else {
		s.said = s.said.Plus(tokens.Measure(e.Text).Size)
	}
}

// soundBytes is the length of one token of audio in base64: a tenth of a second of 24,000 two-byte
// samples a second.
const soundBytes = 6400
