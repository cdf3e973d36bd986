package runner

import (
	"context"
	"slices"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// Call is a call that goes only if all limits that hold for it let it in. The first of Let, Refuse
// and Lose decides; later ones do nothing.
type Call interface {
	// Limits are those that hold for it, all with the same parts.Root.
	Limits() []AskedLimits
	// Next says that calls that had asked before it have just been answered.
	Next(now time.Time)
	// Gone reports whether nobody waits for it any more.
	Gone() bool
	// Takes is what it takes of the last claims of one of its limits, which are in the Ask's beat
	// of this number.
	Takes(l AskedLimits, beat int) []parts.Take
	// Let lets it in, and reports whether somebody still waited. Refuse says that there is no room
	// for it, and Lose that nobody answered.
	Let(now time.Time, v parts.Verdict) bool
	Refuse(v parts.Verdict)
	Lose()
}

// AskedLimits are limits for which calls may ask before they go.
type AskedLimits interface {
	Limits
	// GiveUp is Claims, and gives up what the process may use but does not.
	GiveUp(now time.Time) []parts.Claim
	// Asks reports whether there are calls that ask. Gives reports whether less is used than the
	// store was told, so that such calls in other processes may be waiting for the difference.
	Asks() bool
	Gives(now time.Time) bool
}

// asked reports whether calls ask for an owner's limits.
func asked(l Limits) bool {
	a, ok := l.(AskedLimits)
	return ok && a.Asks()
}

// OpAsk is the operation of a LimitStore for which calls wait.
const OpAsk = "ask"

const (
	// askPatience is how long an answer to calls is waited for. The calls themselves wait less, but
	// a late answer still shows that the store is there, and what others use.
	askPatience = 250 * time.Millisecond
	// mostCalls is how many calls are sent in one round trip at most.
	mostCalls = 64
)

// askAnswer is what came back of an Ask.
type askAnswer struct {
	answer
	calls    []Call
	verdicts []parts.Verdict
}

// queue takes in calls that ask. Those of one root are sent one batch after the other, each with
// all that have come meanwhile: the answer to a beat that was followed by another is worthless.
func (r *LimitsRunner) queue(now time.Time) {
	for _, c := range r.cfg.Calls() {
		for _, l := range c.Limits() {
			r.owner(l, now)
		}
		if r.asks.errors > 1 && !r.asks.closed(now) {
			c.Lose() // the store is known to be away, not merely slow
			continue
		}
		root := rootOf(c)
		r.roots[root] = append(r.roots[root], c)
	}
}

func rootOf(c Call) string { return parts.Root(c.Limits()[0].Owner()) }

// askAll sends the waiting calls of each root that has none under way.
func (r *LimitsRunner) askAll(ctx context.Context) {
	for root, calls := range r.roots {
		calls = slices.DeleteFunc(calls, Call.Gone)
		n := min(len(calls), mostCalls)
		if n == 0 || r.askFor(ctx, calls[:n:n]) {
			calls = calls[n:]
		}
		r.roots[root] = calls
		if len(calls) == 0 {
			delete(r.roots, root)
		}
	}
}

// askFor sends calls, unless others of the same owners are under way; it reports whether it did. It
// may overtake a beat of the same owners, which then changes nothing when it arrives.
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
		o.asking = true
		o.asks = true
		o.busy = true
		o.lacking = false
		b := o.held.Ask(now, o.Limits.(AskedLimits).GiveUp(now))
		o.shorten()
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
	a := askAnswer{answer{sent: now, at: back, owners: owners, turns: turns, replies: got.Replies}, calls, got.Verdicts}
	a.failed, a.err = apart(err)
	select {
	case r.asked <- a:
	case <-ctx.Done():
		for _, c := range calls {
			c.Lose()
		}
	}
}

// decide passes the answer on to the calls, and puts in force what became of their limits. Calls
// that are let in are booked first, so that no other call finds their parts.
func (r *LimitsRunner) decide(a askAnswer) {
	r.asks.tell(a.sent, a.at, a.err)
	valid := a.err == nil && len(a.verdicts) == len(a.calls)
	if a.err == nil {
		for _, c := range r.roots[rootOf(a.calls[0])] {
			c.Next(a.at)
		}
	}
	if valid {
		r.hear(a.sent)
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
