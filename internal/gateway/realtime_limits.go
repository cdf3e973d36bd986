package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/head"
)

// limited applies the tenant's limits to an event of the client, and returns why it is not passed on.
func (s *session) limited(ctx context.Context, e *head.Event) *refusal {
	s.clamp(e)
	s.noteTurns(e)
	switch e.Kind {
	case head.EventCreate:
		return s.ask(ctx, e)
	case head.EventAppend, head.EventCommit:
		return s.overLimit()
	}
	return nil
}

// clamp keeps the responses of an event within the tenant's max_output_tokens.
func (s *session) clamp(e *head.Event) {
	most := s.c.tenant.MaxOutputTokens
	if most > 0 {
		e.Clamp(most)
	}
	bound, known := e.Bound()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Kind == head.EventUpdate && known:
		s.bound = bound
	case e.Kind == head.EventCreate && !known && most > 0:
		e.AddBound(s.boundName, s.bound)
	}
}

// overLimit holds audio back while nothing is left of a limit on tokens, because it may make the server
// start a response. While a response runs it passes, so that the user can interrupt: what the
// response may take is held already, and may be all there is. It does not if a response had to be
// cancelled since there was room.
func (s *session) overLimit() *refusal {
	if s.c.tenant.Shadow {
		return nil
	}
	s.mu.Lock()
	held := slices.ContainsFunc(s.open, func(r *response) bool { return r.held })
	barred := s.barred
	s.mu.Unlock()
	if held && !barred {
		return nil
	}
	left := s.c.g.gov.Standing(s.c.tenant.Name, s.c.pool.Name).Tokens
	if left.Limit == 0 || left.Remaining > 0 {
		s.mu.Lock()
		s.barred = false
		s.mu.Unlock()
		return nil
	}
	return &refusal{
		Status: http.StatusTooManyRequests, Code: admission.CodeRate,
		Message: "Rate limit reached on tokens per min (TPM): Limit " + strconv.FormatInt(left.Limit, 10) + ". All of it is free again in " + left.Reset.Round(time.Millisecond).String() + ". Audio that is sent meanwhile is not heard.",
	}
}

// spent reports why a budget has no room for anything more; nil if it has.
func (s *session) spent() *refusal {
	req := s.c.req
	req.Model = s.c.head.Model
	o, known := s.c.g.gov.Explain(req)
	if !known || s.c.tenant.Shadow || o.Refused == nil || o.Refused.Reason != governor.ReasonBudget {
		return nil
	}
	return admission.Rejected(o.Refused)
}

// complainEvery is how often a client is told at most that its audio is held back: it sends some fifty
// events a second.
const complainEvery = time.Second

// holdBack tells the client that an event is not passed on. After a spent budget the session ends.
func (s *session) holdBack(ctx context.Context, kind string, f *refusal) error {
	now := time.Now()
	if kind == head.EventAppend && now.Sub(s.complained) < complainEvery {
		return nil
	}
	if kind == head.EventAppend {
		s.complained = now
	}
	return s.refuse(ctx, f)
}

// refuse tells the client why something is not done. After a spent budget the session ends.
func (s *session) refuse(ctx context.Context, f *refusal) error {
	err := s.write(ctx, s.client, websocket.MessageText, realtimeError(f))
	if err == nil && f.Code == admission.CodeBudget {
		return errRefusedEvent
	}
	return err
}
