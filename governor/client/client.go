package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/llmgov/llmgov/governor/tokens"
)

// Client asks a governor for leases. It is safe for concurrent use.
type Client struct {
	door       Door
	ungoverned atomic.Int64
}

// New returns a Client that asks through a door. Programs have one made by package embedded or remote.
func New(door Door) *Client { return &Client{door: door} }

// Ping returns nil if the governor can be reached and takes this program's calls. It is for a program's start and its probe of
// readiness, and returns an error that is a *Refusal, or ctx's.
func (c *Client) Ping(ctx context.Context) error {
	if p, ok := c.door.(Pinger); ok {
		return p.Ping(ctx)
	}
	return ctx.Err()
}

// Ungoverned is how many calls have begun without a governor, because it could not be reached: see remote.Options.Open.
func (c *Client) Ungoverned() int64 { return c.ungoverned.Load() }

// Do waits until the call may begin, has fn make it, and ends its lease with the usage that fn
// returns, even if fn panics. The function should make the call with the lease's Context, and tell a long stream's Progress.
//
// The error is fn's, or a *Refusal if fn was not called. If the governor ended the call early, it is both. If fn's usage cannot be,
// it is an ErrUsage too.
func (c *Client) Do(ctx context.Context, req Request, fn func(*Lease) (Usage, error)) error {
	l, err := c.Reserve(ctx, req)
	if err != nil {
		return err
	}
	defer l.Close() // after a panic it has not ended
	u, err := fn(l)
	wrong := l.End(ending(ctx, u, err))
	if err == nil {
		return wrong
	}
	if wrong != nil {
		err = fmt.Errorf("%w; %w", err, wrong)
	}
	if cut := l.Interrupted(); cut != nil {
		return fmt.Errorf("%w: %w", cut, err)
	}
	return err
}

// Reserve waits until the call may begin, and returns its lease, which the caller has to close. End tells
// before that how the call ended. If ctx has ended, or ends first, the error is ctx's.
func (c *Client) Reserve(ctx context.Context, req Request) (*Lease, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(req.Body) > 0 && req.InputTokens == 0 && req.InputSize == (tokens.Size{}) {
		req.InputSize = tokens.Measure(req.Body).Size
	}
	l, err := c.door.Reserve(ctx, req)
	if err == nil && l.Grant.Ungoverned {
		c.ungoverned.Add(1)
	}
	return l, err
}

// Door is the door through which the Client asks.
func (c *Client) Door() Door { return c.door }

// Close closes the Client. Calls that hold a lease may still end it.
func (c *Client) Close() error { return c.door.Close() }

// ending is how a call ended, given what its function returned.
func ending(ctx context.Context, u Usage, err error) End {
	e := End{Usage: u, Reported: u != Usage{}}
	switch {
	case err == nil:
		e.Outcome = Completed
	case errors.Is(err, ErrNotSent):
		e.Outcome = NotSent
	case errors.Is(err, ErrAnsweredError):
		e.Outcome = AnsweredError
		if status, ok := errors.AsType[AnsweredStatus](err); ok {
			e.Status = int(status)
		}
	case ctx.Err() != nil:
		e.Outcome = Cancelled
	default:
		e.Outcome = Failed
	}
	return e
}
