package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor/client/internal/implement"
	"github.com/llmgov/llmgov/governor/tokens"
)

// Client asks a governor for leases. It is safe for concurrent use.
type Client struct {
	door       door
	log        *slog.Logger
	maxHold    time.Duration
	ungoverned atomic.Int64
	closed     atomic.Bool // no call begins any more
	over       atomic.Bool // a Shutdown has returned: nothing is waited for any more
	lost       lost
}

// door and held are doors.Door and doors.Held. They are no names of their own, so that both packages have the same types.
type (
	door = interface {
		Reserve(context.Context, Request) (held, error)
		Shutdown(context.Context) error
	}
	held = interface {
		Grant() Grant
		Progress(Produced)
		End(End)
		EndBy(context.CancelCauseFunc)
		Show(http.Header)
	}
)

func init() {
	implement.Client = newClient
	implement.Lease = newLease
}

func newClient(d door, log *slog.Logger, maxHold time.Duration) *Client {
	return &Client{door: d, log: cmp.Or(log, slog.Default()), maxHold: maxHold}
}

// Ping returns nil if the governor can be reached and takes this program's calls. It is for a program's start and its probe of
// readiness, and returns an error that is a *Refusal, or ctx's.
func (c *Client) Ping(ctx context.Context) error {
	if c.closed.Load() {
		return errClosed("")
	}
	if p, ok := c.door.(interface{ Ping(context.Context) error }); ok {
		return c.told(ctx, p.Ping(ctx), "")
	}
	return ctx.Err()
}

// Ungoverned is how many calls have begun without a governor, because it could not be reached: see remote.Options.Open.
func (c *Client) Ungoverned() int64 { return c.ungoverned.Load() }

// Forgotten is how many leases have expired, because nobody could end them any more, or nobody had by the MaxHold of embedded.Options or remote.Options.
func (c *Client) Forgotten() int64 { return c.lost.found.Load() }

// Stranger reports whether a key is surely nobody's. Where the governor is in another process, only Reserve can tell.
func (c *Client) Stranger(key string) bool {
	keys, ok := c.door.(interface{ Knows(key string) bool })
	return ok && !keys.Knows(key)
}

// Do waits until the call may begin, has fn make it, and ends its lease with the usage that fn
// returns, even if fn panics. The ctx of fn is the lease's, with which the governor can end the call. A long stream should tell the lease of
// its Progress.
//
// The error is fn's, or a *Refusal if fn was not called. If the governor ended the call early, it is both. If fn's usage cannot be,
// it is an ErrUsage too.
func (c *Client) Do(ctx context.Context, req Request, fn func(ctx context.Context, l *Lease) (Usage, error)) error {
	held, err := c.ask(ctx, req)
	if err != nil {
		return err
	}
	l := newLease(ctx, held)
	c.keep(l.hold)
	defer l.Close() // after a panic it has not ended, and so it is never forgotten
	u, err := fn(l.Context(), l)
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
// before that how the call ended. The wait is as long as the tenant and the request allow, and ends at ctx's deadline: a call whose turn is
// known to come later is refused at once, with the time to come back. If ctx has ended, or ends first, the error is ctx's.
//
// A lease that nobody can close any more is found by the garbage collector: it ends as Expired, which is logged and counted.
func (c *Client) Reserve(ctx context.Context, req Request) (*Lease, error) {
	held, err := c.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	l := &Lease{Grant: held.Grant(), hold: &hold{held: held, base: ctx}}
	c.keep(l.hold)
	c.watch(l)
	return l, nil
}

// ask waits until the call may begin.
func (c *Client) ask(ctx context.Context, req Request) (held, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.closed.Load() {
		return nil, errClosed(req.ID)
	}
	if len(req.Body) > 0 && req.InputTokens == 0 && req.InputSize == (tokens.Size{}) {
		m := tokens.Measure(req.Body)
		req.InputSize = m.Size
		req.InputSize[tokens.Elsewhere] += (m.Unseen + int64(len(m.Files))) * tokens.Unknown * tokens.Scale
	}
	held, err := c.door.Reserve(ctx, req)
	if err != nil {
		return nil, c.told(ctx, err, req.ID)
	}
	if held.Grant().Ungoverned {
		c.ungoverned.Add(1)
	}
	return held, nil
}

// told is the error of a call that may not begin, or of a ping.
func (c *Client) told(ctx context.Context, err error, id string) error {
	r, ok := errors.AsType[*Refusal](err)
	switch {
	case !ok || ctx.Err() != nil:
		return err
	case c.closed.Load():
		return errClosed(id)
	}
	return r.clear(id)
}

// Shutdown refuses calls that come or wait, as ErrClosed, waits until all leases have ended, and frees what the Client has begun. When ctx
// ends, it does not wait any longer: it ends the contexts of calls that still hold a lease, and returns ctx's error within a second or two.
func (c *Client) Shutdown(ctx context.Context) error {
	c.closed.Store(true)
	if c.over.Load() {
		return nil
	}
	err := c.door.Shutdown(ctx)
	c.over.Store(true)
	c.lost.stop()
	return err
}

// Close is a Shutdown whose ctx has ended: it refuses calls that come or wait, ends the contexts of those that hold a lease, and returns
// within a second or two.
func (c *Client) Close() error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Shutdown(over); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// ending is how a call ended, given what its function returned.
func ending(ctx context.Context, u Usage, err error) End {
	e := End{Usage: u, Reported: u.Took()}
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
