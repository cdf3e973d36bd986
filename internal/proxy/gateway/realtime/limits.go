package realtime

import (
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// The names of the bound on the length of responses, the second one in the beta of the API.
const (
	boundKey     = "max_output_tokens"
	betaBoundKey = "max_response_output_tokens"
)

// setBoundName sets the name of the bound in the version of the API that the upstream speaks.
func (b *book) setBoundName(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.named = name
}

// clamp keeps the responses of an event within the tenant's max_output_tokens.
func (b *book) clamp(e *head.Event) {
	most := b.terms.MaxOutput
	if most > 0 {
		e.Clamp(most)
	}
	bound, known := e.Bound()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.Kind == head.EventUpdate && known:
		b.bound = bound
	case e.Kind == head.EventCreate && !known && most > 0:
		e.AddBound(b.named, b.bound)
	}
}

// overLimit holds audio back while nothing is left of a limit on tokens, because it may make the server
// start a response. While a response runs it passes, so that the user can interrupt: the
// limit may be used up by the lease of that very response. It does not if a response had to be
// cancelled since there was room.
func (b *book) overLimit() *ask.Refusal {
	if b.terms.Shadow {
		return nil
	}
	b.mu.Lock()
	passes := b.open.held() && !b.barred
	b.mu.Unlock()
	if passes {
		return nil
	}
	left := b.terms.Governor.Standing(b.terms.Request.Tenant, b.terms.Request.Pool).Tokens
	if left.Limit == 0 || left.Remaining > 0 {
		b.mu.Lock()
		b.barred = false
		b.mu.Unlock()
		return nil
	}
	return tooMany("Rate limit reached on tokens per min (TPM): Limit " + strconv.FormatInt(left.Limit, 10) +
		". All of it is free again in " + left.Reset.Round(time.Millisecond).String() + ". Audio that is sent meanwhile is not heard.")
}

// spent reports why a budget has no room for anything more; nil if it has.
func (b *book) spent() *ask.Refusal {
	req := b.request()
	req.Model = b.terms.Model
	o, known := b.terms.Governor.Explain(req)
	if !known || b.terms.Shadow || o.Refused == nil || o.Refused.Reason != governor.ReasonBudget {
		return nil
	}
	return admission.RefusalOf(o.Refused, nil)
}
