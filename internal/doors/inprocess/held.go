package inprocess

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/streaming"
)

// held is a lease with its call. It implements doors.Held. Whoever has a lease may use it long after its end, so
// only End, which is called once, and Progress, which is not called after it, use the call; see close.
type held struct {
	door    *Door
	call    *admission.Call
	early   admission.Early
	grant   client.Grant
	flowing atomic.Bool // the first token has come
}

// askOf is a request as package admission has it.
func askOf(r *client.Request) ask.Ask {
	a := ask.Ask{
		Model:      r.Model,
		Pool:       r.Pool,
		Instead:    r.Instead,
		Prompt:     ask.Prompt{Tokens: r.InputTokens, Size: r.InputSize, Own: r.InputSize, Body: r.Body},
		Answer:     ask.Answer{Bound: max(0, r.MaxOutput), Copies: r.Copies, None: r.NoOutput, Open: r.OpenOutput, Route: r.Route},
		Free:       r.Free,
		Stream:     r.Stream,
		Tier:       r.Tier,
		Background: r.Background,
		Header:     ask.Header(r.Header),
		Member:     r.Member,
		MaxWait:    r.MaxWait,
		Retry:      ask.Retry{Key: r.Retry.Key, Attempt: attempt(r.Retry.Attempt), Once: r.Retry.Once, Digest: r.Retry.Digest},
	}
	a.Prompt.FindFiles()
	return a
}

// attempt says whether the n-th try of a call is its first.
func attempt(n int) escrow.Retry {
	switch n {
	case 0:
		return escrow.RetryUnknown
	case 1:
		return escrow.RetryFirst
	}
	return escrow.RetryAgain
}

// Progress implements doors.Held.
func (h *held) Progress(p client.Produced) {
	if h.call.Ask.Stream && h.flowing.CompareAndSwap(false, true) {
		h.call.NoteFirst()
	}
	if p.Tokens > 0 {
		h.call.Lease.Progress(p.Tokens)
		return
	}
	h.call.Progress(p.Deltas)
}

// Show implements doors.Held.
func (h *held) Show(header http.Header) { h.door.show(header, &h.grant) }

// Grant implements doors.Held.
func (h *held) Grant() client.Grant { return h.grant }

// EndBy implements doors.Held.
func (h *held) EndBy(end context.CancelCauseFunc) {
	h.early.EndBy(func(why error) {
		if why != doors.Closed {
			why = h.door.refusal(h.grant.ID, h.early.CutOff())
		}
		end(why)
	})
}

// End implements doors.Held.
func (h *held) End(e client.End) {
	defer h.close(&e)
	switch e.Outcome {
	case client.NotSent:
		h.call.Unsend()
		h.call.End(telemetry.Cancelled, "", governor.Usage{})
	case client.AnsweredError:
		h.call.AnsweredError(e.Status)
	case client.Completed:
		h.answered(e, streaming.Completed)
	case client.Failed:
		h.answered(e, streaming.UpstreamFailed)
	case client.Expired:
		h.call.End(telemetry.Cancelled, admission.ReasonIdle, h.usage(e, streaming.Result{Cause: streaming.ClientGone, Deltas: e.Produced.Deltas}))
	default:
		h.answered(e, streaming.ClientGone)
	}
}

// close closes the call. The memory of one that was completed, and has shown no progress, is used again, because nobody
// knows it any more: the last Progress of others may be on its way still, and Later is asked about those not completed.
func (h *held) close(e *client.End) {
	h.call.Close()
	if e.Outcome == client.Completed && e.Produced == (client.Produced{}) {
		*h.call = admission.Call{}
		calls.Put(h.call)
		h.call = nil
	}
}

// calls have ended, and their memory is used again.
var calls = sync.Pool{New: func() any { return new(admission.Call) }}

// answered ends a call as the gateway ends those whose answers it meters.
func (h *held) answered(e client.End, cause streaming.Cause) {
	res := streaming.Result{Cause: cause, Usage: streaming.Usage(e.Usage), Reported: e.Reported, Deltas: e.Produced.Deltas}
	charged := res
	if cause == streaming.UpstreamFailed { // a Failed answer may have broken off, so that its prompt is charged though no part of it is counted
		charged.Cause = streaming.Truncated
	}
	h.call.AnsweredWith(res, h.usage(e, charged))
}

// usage is what is charged for an answer. Tokens that the caller has counted take the place of an estimate.
func (h *held) usage(e client.End, res streaming.Result) governor.Usage {
	u := h.call.Metered(res)
	if !e.Reported && e.Produced.Tokens > 0 {
		u.Output = e.Produced.Tokens
	}
	return u
}
