package reserve

import (
	"context"
	"errors"
	"time"

	"github.com/llmgov/llmgov/governor/client"
)

// errGone ends the context of a call whose caller has gone away.
var errGone = errors.New("reserve: the caller has gone")

// Progress says how far a call has come, and renews its reservation. If the governor has ended the call early,
// interrupted says why: it is to be broken off and committed.
func (b *Book) Progress(owner, id string, p client.Produced) (ttl time.Duration, interrupted *client.Refusal, err error) {
	if err := (&client.End{Produced: p}).Check(); err != nil {
		return 0, nil, err
	}
	if !validID(id) {
		return 0, nil, unknown(id)
	}
	r, err := b.renew(name{owner, id}, &p)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case p.Tokens > 0:
		r.lease.Progress(p.Tokens)
	case p.Deltas > 0:
		r.lease.ProgressDeltas(p.Deltas)
	}
	return r.ttl, r.lease.Interrupted(), nil
}

// renew finds an open reservation and lengthens it. What was produced never becomes less: p is raised to the
// most that was said.
func (b *Book) renew(n name, p *client.Produced) (*reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	r, ok := b.all[n]
	if !ok || r.lease == nil {
		if b.past.find(n, now) != nil {
			return nil, ended(n.id)
		}
		return nil, unknown(n.id)
	}
	p.Tokens = max(p.Tokens, r.produced.Tokens)
	p.Deltas = max(p.Deltas, r.produced.Deltas)
	r.produced = *p
	r.liveLocked(now)
	return r, nil
}

// Commit ends a reservation. released reports whether this was its end; if not, it had ended before, and what
// was charged then is raised to the usage. An End that is NotSent cancels, even one that still asks or will: its asker may
// have gone away without an answer, and its cancel may be faster than what it asked.
func (b *Book) Commit(owner, id string, e client.End) (released bool, err error) {
	if err := e.Check(); err != nil {
		return false, b.Misread(owner, id, client.Cancelled, err)
	}
	if !validID(id) { // nor is it worth being remembered
		return false, unknown(id)
	}
	if e.Outcome == client.NotSent {
		if r := b.cancelAsking(name{owner, id}); r != nil {
			r.end(context.Canceled)
			return true, nil
		}
	}
	r, gone, err := b.take(name{owner, id})
	switch {
	case err != nil:
		return false, err
	case r == nil:
		gone.again(&e)
		return false, nil
	}
	b.close(r, gone, e)
	return true, nil
}

// Misread ends a reservation of whose end no more can be read than its outcome, and returns why: what it held is not kept for whoever tells
// its end wrong. It is charged by estimate, unless it is NotSent, and its usage may still be committed.
func (b *Book) Misread(owner, id string, how client.Outcome, why error) error {
	if r, gone, _ := b.take(name{owner, id}); r != nil {
		b.close(r, gone, client.End{Outcome: how})
	}
	return why
}

// cancelAsking cancels a reservation that still asks, and returns it. It returns nil if there is none, and remembers one that
// may yet ask.
func (b *Book) cancelAsking(n name) *reservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.all[n]
	if now := time.Now(); !ok && b.past.find(n, now) == nil && b.early.find(n, now) == nil {
		b.early.add(n, now)
	}
	if !ok || r.lease != nil {
		return nil
	}
	r.cancelled = true
	return r
}

// take takes an open reservation out of the book, for the caller to end, or finds one that has ended.
func (b *Book) take(n name) (*reservation, *gone, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	r, ok := b.all[n]
	if !ok || r.lease == nil {
		if g := b.past.find(n, now); g != nil {
			return nil, g, nil
		}
		return nil, nil, unknown(n.id)
	}
	return r, b.takeLocked(r, now), nil
}

func (b *Book) takeLocked(r *reservation, now time.Time) *gone {
	r.timer.Stop()
	b.removeLocked(r)
	return b.past.add(r.name, now)
}

// close ends a reservation that was taken out of the book.
func (b *Book) close(r *reservation, g *gone, e client.End) {
	defer b.inflight.Leave()
	e.Produced.Tokens = max(e.Produced.Tokens, r.produced.Tokens)
	e.Produced.Deltas = max(e.Produced.Deltas, r.produced.Deltas)
	if e.Outcome == client.Cancelled || e.Outcome == client.Expired {
		r.end(errGone) // first, because its caller has gone
	}
	_ = r.lease.End(e) // it was checked
	r.end(nil)
	if e.Outcome == client.NotSent || e.Outcome == client.Expired || e.Outcome == client.Cancelled && !e.Reported {
		g.ends(b.Door.Later(r.held))
		return
	}
	g.ends(nil)
}

// expire ends a reservation whose ttl is over.
func (b *Book) expire(r *reservation) {
	g := b.takeExpired(r)
	if g == nil {
		return
	}
	b.close(r, g, client.End{Outcome: client.Expired})
}

func (b *Book) takeExpired(r *reservation) *gone {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.all[r.name] != r {
		return nil
	}
	if left := r.until.Sub(now); left > 0 {
		r.timer.Reset(left)
		return nil
	}
	return b.takeLocked(r, now)
}
