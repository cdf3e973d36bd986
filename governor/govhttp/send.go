package govhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/proxy/answers"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// governed governs requests by a Client.
type governed struct {
	client *client.Client
	opt    Options
	serves bool // calls of others

	additions upstreams.Additions
}

func newGoverned(c *client.Client, opt Options, caller func(*http.Request) Caller) *governed {
	if opt.Caller == nil {
		opt.Caller = caller
	}
	if opt.MaxBody == 0 {
		opt.MaxBody = defaultMaxBody
	}
	return &governed{client: c, opt: opt}
}

// send sends a request when its turn has come, and meters its answer.
func (g *governed) send(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	d, at, deployment := routeOf(r)
	if at == nil {
		if g.opt.Unknown != nil {
			if err := g.opt.Unknown(r); err != nil {
				return nil, err
			}
		}
		return next(r)
	}
	c := g.begin(r, d, at)
	if err := g.stranger(c); err != nil {
		return g.refused(c, err)
	}
	wrong, err := g.read(c, deployment)
	if err != nil {
		return nil, err
	}
	if wrong != nil {
		return g.refused(c, refusal(c.ask.ID, wrong))
	}
	lease, err := g.client.Reserve(r.Context(), c.ask)
	if err != nil {
		return g.refused(c, err)
	}
	answered := false
	defer func() {
		if !answered { // next failed, or panicked
			lease.Close()
		}
	}()
	resp, err := g.exchange(c, lease, next)
	if err != nil {
		_ = lease.End(client.End{Outcome: c.unanswered()})
		return g.refused(c, because(lease, err))
	}
	answered = true
	if g.serves {
		lease.Show(resp.Header)
	}
	return meter(c, lease, resp), nil
}

// exchange sends a call, and once more without what its server refuses of what was added to it. Nothing was produced before that.
func (g *governed) exchange(c *call, lease *client.Lease, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	c.without = g.additions.Refused(time.Now(), lease.Grant.Tenant, c.server())
	for amended := false; ; amended = true {
		resp, err := next(g.outgoing(c, lease))
		if err != nil {
			return nil, err
		}
		answers.Decode(resp)
		refused := c.refuses(resp)
		if refused == 0 {
			if amended && resp.StatusCode/100 == 2 {
				g.additions.Refuse(time.Now(), lease.Grant.Tenant, c.server(), c.without)
			}
			c.body = nil // a call lasts longer than its body is needed
			c.ask.Body = nil
			return resp, nil
		}
		_ = resp.Body.Close()
		c.without |= refused
	}
}

// unanswered is how a call ended that has no answer.
func (c *call) unanswered() client.Outcome {
	switch {
	case c.unsent.Load():
		return client.NotSent
	case c.in.Context().Err() != nil:
		return client.Cancelled
	}
	return client.Failed
}

// because is an error of a call with the reason why the governor ended it early, if it did.
func because(l *client.Lease, err error) error {
	if cut := l.Interrupted(); cut != nil {
		return fmt.Errorf("%w: %w", cut, err)
	}
	return err
}

// refused is the outcome of a call without an answer: by a refusal, or another error.
func (g *governed) refused(c *call, err error) (*http.Response, error) {
	f, ok := errors.AsType[*client.Refusal](err)
	if !ok || !g.opt.Answer {
		return nil, err
	}
	return answerOf(c, f), nil
}

// refusal is that of a request which is wrong by itself, as callers of this package see it.
func refusal(id string, f *ask.Refusal) *client.Refusal {
	return &client.Refusal{ID: id, Status: f.Status, Code: client.Code(f.Code), Kind: f.Kind, Param: f.Param, Message: f.Message, Final: true}
}
