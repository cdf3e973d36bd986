package runner

import (
	"context"
	"slices"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// Call is one that goes only if all limits that hold for it let it in. Of its methods the first
// that decides counts.
type Call interface {
	// Limits are those that hold for it. All are of one parts.Root.
	Limits() []AskedLimits
	// Next says that calls that had asked before it were answered just now.
	Next(now time.Time)
	// Gone reports whether nobody waits for it any more.
	Gone() bool
	// Takes are what it takes of the last claims of one of its limits, which are those of a beat.
	Takes(l AskedLimits, beat int) []parts.Take
	// Let lets it in, Refuse says that there is no room for it, and Lose that nobody answers.
	Let(now time.Time, v parts.Verdict) bool
	Refuse(v parts.Verdict)
	Lose()
}

// AskedLimits are those that calls may ask for before they go.
type AskedLimits interface {
	Limits
	// GiveUp is Claims, and gives up what the process may have and does not use.
	GiveUp(now time.Time) []parts.Claim
	// Asks reports whether there are calls that ask, and Gives whether less is used than
	// the store was told, which such calls of others may wait for.
	Asks() bool
	Gives(now time.Time) bool
}

// asked reports whether calls ask for an owner's limits.
func asked(l Limits) bool {
	a, ok := l.(AskedLimits)
	return ok && a.Asks()
}

// OpAsk is the operation of a LimitStore that calls wait for.
const OpAsk = "ask"

const (
	// askPatience is how long an answer to calls is waited for. They wait for less; but what is
	// answered late says that the store is there, and what others use.
	askPatience = 250 * time.Millisecond
	// mostCalls is how many calls are told of in one round trip.
	mostCalls = 64
)

// askAnswer is what came back of an Ask.
type askAnswer struct {
	answer
	calls    []Call
	verdicts []parts.Verdict
}

// queue takes in calls that ask. Those of one root are told of one after the other, all that
// have come meanwhile at once: the answer to a beat that was followed by another is worthless.
func (r *LimitsRunner) queue(now time.Time) {
	for _, c := range r.cfg.Calls() {
		for _, l := range c.Limits() {
			r.owner(l, now)
		}
		if r.asks.errors > 1 && !r.asks.closed(now) {
			c.Lose() // it is known to be lost, and not only slow
			continue
		}
		root := rootOf(c)
		r.roots[root] = append(r.roots[root], c)
	}
}

func rootOf(c Call) string { return parts.Root(c.Limits()[0].Owner()) }

// askAll tells of calls of each root that has no other calls under way.
func (r *LimitsRunner) askAll(ctx context.Context) {
	for root, calls := range r.roots {
		calls = slices.DeleteFunc(calls, Call.Gone)
		n := min(len(calls), mostCalls)
		if n == 0 || r.askFor(ctx, calls[:n:n]) {
			calls = calls[n:]
		}
		if r.roots[root] = calls; len(calls) == 0 {
			delete(r.roots, root)
		}
	}
}

// askFor tells of calls, unless others that are told of some owner are under way. A beat of its own
// it overtakes: should that come later, it changes nothing.
func (r *LimitsRunner) askFor(ctx context.Context, calls []Call) bool {
	now := time.Now()
	var owners []*owner
	for _, c := range calls {
		for _, l := range c.Limits() {
			o := r.owner(l, now)
			if o.asking {
				return false
			}
			if !slices.Contains(owners, o) {
				owners = append(owners, o)
			}
		}
	}
	q := &parts.Ask{}
	places := make(map[Limits]int, len(owners))
	for i, o := range owners {
		o.told()
		o.asking, o.asks, o.busy, o.lacking = true, true, true, false
		b := o.held.Ask(now, o.Limits.(AskedLimits).GiveUp(now))
		b.Timed = true
		q.Beats = append(q.Beats, b)
		places[o.Limits] = i
	}
	for _, c := range calls {
		var takes parts.Call
		for _, l := range c.Limits() {
			takes = append(takes, c.Takes(l, places[l])...)
		}
		q.Calls = append(q.Calls, takes)
	}
	turns := turnsOf(owners)
	r.asking.Go(func() { r.sendAsk(ctx, now, owners, turns, calls, q) })
	return true
}

func (r *LimitsRunner) sendAsk(ctx context.Context, now time.Time, owners []*owner, turns []int, calls []Call, q *parts.Ask) {
	limited, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	got, err := r.cfg.Store.Ask(limited, q)
	back := time.Now()
	r.cfg.Told(OpAsk, back.Sub(now), err)
	a := askAnswer{answer{sent: now, at: back, owners: owners, turns: turns, replies: got.Replies, err: err}, calls, got.Verdicts}
	select {
	case r.asked <- a:
	case <-ctx.Done():
		for _, c := range calls {
			c.Lose()
		}
	}
}

// decide lets calls in or not, as they were answered, and puts in force what limits were. Who is
// let in is booked first, so that nobody else finds its part.
func (r *LimitsRunner) decide(a askAnswer) {
	r.asks.tell(a.at, a.err)
	valid := a.err == nil && len(a.verdicts) == len(a.calls)
	if a.err == nil {
		for _, c := range r.roots[rootOf(a.calls[0])] {
			c.Next(a.at)
		}
	}
	if valid {
		r.heard = a.sent
		for i, c := range a.calls {
			if a.verdicts[i].In {
				c.Let(a.at, a.verdicts[i])
			}
		}
	}
	for i, o := range a.owners {
		valid = r.put(o, &a.answer, i) && valid
	}
	for i, c := range a.calls {
		switch {
		case !valid:
			c.Lose()
		case !a.verdicts[i].In:
			c.Refuse(a.verdicts[i])
		}
	}
}
