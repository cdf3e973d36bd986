package client

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Lease is what an admitted call holds until it ends. It is safe for concurrent use, and must not be copied.
type Lease struct {
	// Grant is as the governor gave it.
	Grant Grant

	held Held
	base context.Context

	mu       sync.Mutex
	ctx      context.Context         // guarded by mu; nil until it is asked for
	cancel   context.CancelCauseFunc // guarded by mu
	produced Produced                // guarded by mu
	ended    bool                    // guarded by mu
	closed   bool                    // guarded by mu
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

// Begin begins the lease of a call with the context ctx. Doors call it once.
func (l *Lease) Begin(ctx context.Context, held Held, g Grant) {
	l.Grant = g
	l.held = held
	l.base = ctx
}

// Held is what the Door that gave the lease keeps for it.
func (l *Lease) Held() Held { return l.held }

// Context is the context for the call. It ends with the caller's, when the lease is closed, or when the governor
// has to end the call early: then its cause is a *Refusal.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	first := l.ctx == nil
	if first {
		l.ctx, l.cancel = context.WithCancelCause(l.base)
	}
	ctx := l.ctx
	cancel := l.cancel
	closed := l.closed
	l.mu.Unlock()
	switch {
	case closed:
		cancel(nil)
	case first:
		l.held.EndBy(cancel)
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
	r, _ := context.Cause(l.ctx).(*Refusal)
	return r
}

// Progress says how many tokens of output there are so far. A few times a second is enough. Long streams
// have to, because a lease that shows no life expires.
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
// 0, ends it by estimate, and is an ErrUsage.
func (l *Lease) End(e End) error {
	param, text := e.wrong()
	if param == "outcome" {
		e = End{Outcome: Cancelled}
	} else if param != "" {
		e = End{Outcome: e.Outcome, Status: e.Status}
	}
	l.mu.Lock()
	over := l.ended
	l.ended = true
	if e.Produced == (Produced{}) {
		e.Produced = l.produced
	}
	if e.Outcome != AnsweredError || e.Status < 300 || e.Status > 599 {
		e.Status = 0
	}
	l.mu.Unlock()
	if over {
		return nil
	}
	l.held.End(e)
	if param != "" {
		return fmt.Errorf("%w: %s", ErrUsage, text)
	}
	return nil
}

// Close ends the lease as that of a call that its caller broke off, if it has not ended, and ends Context.
func (l *Lease) Close() {
	l.mu.Lock()
	over := l.ended
	l.ended = true
	l.closed = true
	produced := l.produced
	cancel := l.cancel
	l.mu.Unlock()
	if !over {
		l.held.End(End{Outcome: Cancelled, Produced: produced})
	}
	if cancel != nil {
		cancel(nil)
	}
}

// Show sets the headers that show an HTTP caller where it stands.
func (l *Lease) Show(h http.Header) { l.held.Show(h) }
