package client

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// Lease is what an admitted call holds until it ends. It is safe for concurrent use, and must not be copied.
type Lease struct {
	// Grant is as the governor gave it.
	Grant Grant

	*hold // apart if the lease is watched, because whoever ends a forgotten one must not reach it
}

// hold is the state of a lease.
type hold struct {
	held   held
	base   context.Context
	client *Client // nil if no Client keeps it
	begun  time.Time

	mu       sync.Mutex
	watch    runtime.Cleanup         // guarded by mu; zero if nobody watches
	late     *time.Timer             // guarded by mu; nil without MaxHold
	ctx      context.Context         // guarded by mu; nil until it is asked for
	cancel   context.CancelCauseFunc // guarded by mu
	produced Produced                // guarded by mu
	ended    bool                    // guarded by mu
	closed   bool                    // guarded by mu
	why      error                   // guarded by mu: the cause with which it was closed
}

// Grant is whose a lease is, and how it was given.
type Grant struct {
	ID     string
	Tenant string
	Pool   string
	// MaxOutput is how many tokens the policy lets an answer have; 0 is as many as the call asks for.
	MaxOutput int64
	// Waited is how long the call waited.
	Waited time.Duration
	// Ungoverned says that the governor could not be reached, and nothing is held or counted.
	Ungoverned bool
}

// newLease is a lease that nobody watches over.
func newLease(ctx context.Context, held held) *Lease {
	whole := &struct {
		Lease
		of hold
	}{of: hold{held: held, base: ctx}}
	whole.Lease = Lease{Grant: held.Grant(), hold: &whole.of}
	return &whole.Lease
}

// Context is the context for the call. It ends with the caller's, when the lease is closed, or when the governor
// has to end the call early: then its cause is a *Refusal.
func (l *Lease) Context() context.Context {
	h := l.hold
	h.mu.Lock()
	first := h.ctx == nil
	if first {
		h.ctx, h.cancel = context.WithCancelCause(h.base)
	}
	ctx := h.ctx
	cancel := h.cancel
	closed := h.closed
	why := h.why
	h.mu.Unlock()
	switch {
	case closed:
		cancel(why)
	case first:
		h.held.EndBy(cancel)
	}
	return ctx
}

// Interrupted is the *Refusal with which the governor ended the call early; nil if it did not. It is known
// to those who asked for Context.
func (l *Lease) Interrupted() *Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		return nil
	}
	r, ok := context.Cause(l.ctx).(*Refusal)
	if !ok {
		return nil
	}
	return r.clear(l.Grant.ID)
}

// Progress says how many tokens of output there are so far. A few times a second is enough. It is charged if the call breaks off.
func (l *Lease) Progress(tokens int64) { l.progress(Produced{Tokens: tokens}) }

// ProgressDeltas is Progress for streams whose pieces are counted, and not their tokens.
func (l *Lease) ProgressDeltas(deltas int64) { l.progress(Produced{Deltas: deltas}) }

func (l *Lease) progress(p Produced) {
	p.Tokens = min(max(0, p.Tokens), maxTokens)
	p.Deltas = min(max(0, p.Deltas), maxTokens)
	if p == (Produced{}) { // nothing has come yet
		return
	}
	l.mu.Lock()
	over := l.ended
	if !over {
		l.produced = p
	}
	l.mu.Unlock()
	if !over {
		l.held.Progress(p)
	}
}

// End ends the lease. The first End counts, and later ones do nothing. An End with a number that no call has, such as a usage less than
// 0, ends it by estimate, which is logged, and is an ErrUsage.
func (l *Lease) End(e End) error {
	defer runtime.KeepAlive(l) // it is not forgotten while it ends
	param, text := e.wrong()
	if param == "outcome" {
		e = End{Outcome: Cancelled}
	} else if param != "" {
		e = End{Outcome: e.Outcome, Status: e.Status}
	}
	if e.Outcome == Unknown {
		e.Outcome = Cancelled
		if e.Reported {
			e.Outcome = Completed
		}
	}
	if e.Outcome != AnsweredError || e.Status < 300 || e.Status > 599 {
		e.Status = 0
	}
	if !l.end(e, nil) || param == "" {
		return nil
	}
	if l.client != nil { // because many callers have no use for the error
		l.client.log.Warn("a lease ended by estimate: "+text, "id", l.Grant.ID, "tenant", l.Grant.Tenant, "pool", l.Grant.Pool)
	}
	return fmt.Errorf("%w: %s", ErrUsage, text)
}

// Close ends the lease as that of a call that its caller broke off, if it has not ended, and ends Context.
func (l *Lease) Close() {
	defer runtime.KeepAlive(l)
	l.mu.Lock()
	l.closed = true
	cancel := l.cancel
	l.mu.Unlock()
	l.end(End{Outcome: Cancelled}, nil)
	if cancel != nil {
		cancel(nil)
	}
}

// end ends the lease, and its context if there is a reason why. It reports whether this was its end.
func (h *hold) end(e End, why error) bool {
	h.mu.Lock()
	over := h.ended
	h.ended = true
	if e.Produced == (Produced{}) {
		e.Produced = h.produced
	}
	cancel := h.cancel
	if !over && why != nil {
		h.closed = true
		h.why = why
	}
	late := h.late
	watch := h.watch
	h.mu.Unlock()
	if over {
		return false
	}
	if watch != (runtime.Cleanup{}) {
		watch.Stop()
		h.client.lost.open.Add(-1)
	}
	if late != nil {
		late.Stop()
	}
	h.held.End(e)
	if why != nil && cancel != nil {
		cancel(why)
	}
	return true
}

// Show sets the headers that show an HTTP caller where it stands.
func (l *Lease) Show(h http.Header) { l.held.Show(h) }
