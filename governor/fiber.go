package governor

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"
)

// fiber is the walk of one call through its limits on a timeline: a coroutine that runs until it
// has to wait, and continues when it is woken.
type fiber struct {
	line   *timeline
	number uint64 // of the call
	resume func() (struct{}, bool)
	wait   func(struct{}) bool
	ready  bool // woken, and waiting for its turn to run
	gone   bool // its caller went away
	ended  bool
}

// wake lets the fiber continue when its turn comes.
func (f *fiber) wake() {
	if !f.ready && !f.ended {
		f.ready = true
		f.line.ready = append(f.line.ready, f)
	}
}

// run lets a call walk until it waits or ends.
func (t *timeline) run(f *fiber) {
	t.runs = f
	_, waits := f.resume()
	t.runs = nil
	f.ended = !waits
}

// park is Governor.park on a timeline.
func (t *timeline) park(w *waiter, until time.Time) cause {
	f := t.runs
	look := func() (cause, bool) {
		woke := false
		select {
		case <-w.ch:
			woke = true
		default:
		}
		switch {
		case f.gone:
			return gone, true
		case t.drains:
			return draining, true
		case !t.now.Before(until):
			return timedOut, true
		}
		return woken, woke
	}
	why, done := look()
	if done {
		return why
	}
	w.fiber = f
	t.parked[f] = struct{}{}
	timer := t.AfterFunc(until.Sub(t.now), f.wake)
	f.wait(struct{}{})
	timer.Stop()
	delete(t.parked, f)
	w.fiber = nil
	why, _ = look()
	return why
}

// drain wakes all that wait, in the order in which they came.
func (t *timeline) drain() {
	t.drains = true
	for _, f := range slices.SortedFunc(maps.Keys(t.parked), func(a, b *fiber) int { return cmp.Compare(a.number, b.number) }) {
		f.wake()
	}
}

// Ask is Acquire for callers that do not block, on a governor that is Recorded. done is called with
// the decision, at once or later, within an instant; it must not ask the governor for anything.
// leave says that the caller went away; if the call still waits, done is called for it as well.
func (g *Governor) Ask(req Request, done func(Lease, *Refusal)) (leave func()) {
	f := &fiber{line: g.line}
	now := g.lock()
	defer g.unlock()
	f.number = g.asked + 1
	// The stop function is never needed: the coroutine always runs to its end.
	f.resume, _ = iter.Pull(func(wait func(struct{}) bool) {
		f.wait = wait
		w := walk{g: g, ctx: context.Background(), req: req, began: now}
		rej := w.decide()
		if g.events.listened() {
			g.events.add(w.told(rej))
		}
		done(w.lease, rej)
	})
	g.line.run(f)
	return func() {
		g.lock()
		defer g.unlock()
		if f.ended || f.gone {
			return
		}
		g.queueDetail(Event{Kind: EventLeft, Call: f.number})
		f.gone = true
		f.wake()
	}
}

// ask is Acquire on a timeline.
func (g *Governor) ask(ctx context.Context, req Request) (lease Lease, rej *Refusal) {
	decided := make(chan struct{})
	leave := g.Ask(req, func(l Lease, r *Refusal) {
		lease = l
		rej = r
		close(decided)
	})
	select {
	case <-decided:
		return lease, rej
	default:
	}
	select {
	case <-decided:
	case <-ctx.Done():
		leave()
		<-decided
	}
	return lease, rej
}
