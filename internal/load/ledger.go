package load

import (
	"maps"
	"slices"
	"time"
)

// mostKinds bounds how many kinds of refusals and failures are told apart. What servers
// answer is theirs to say.
const mostKinds = 40

// Ledger adds up what became of calls. It does not keep the calls. It is not safe for
// concurrent use.
type Ledger struct {
	plan    *Plan
	tenants []tally
	course  *course
	held    int64
	// ended is how far the run got, if it was cut short.
	ended time.Duration
}

// NewLedger is one in which nothing has happened.
func NewLedger(p *Plan) *Ledger {
	l := &Ledger{plan: p, tenants: make([]tally, len(p.Tenants)), course: newCourse(p), ended: p.end()}
	for i := range l.tenants {
		l.tenants[i].refusals = map[string]*kind{}
		l.tenants[i].failures = map[string]*kind{}
	}
	return l
}

// tally is what became of one tenant's calls.
type tally struct {
	offered, sent, attempts, retried int64
	outcomes                         [Unfinished + 1]int64
	refusals, failures               map[string]*kind
	input, output                    int64 // as reported, of whole answers
	silent                           int64 // whole answers without usage
	good, goodTokens                 int64 // what ended within the measured time
	times                            times
}

// kind is one kind of refusal or failure.
type kind struct {
	count   int64
	example string
	times   times // Hint only
}

// others is the kind for all that there is no room for.
const others = "other"

// of finds a kind, or makes it while there is room.
func of(kinds map[string]*kind, name string) *kind {
	room := mostKinds
	if kinds[others] != nil {
		room++
	}
	if kinds[name] == nil && len(kinds) >= room {
		name = others
	}
	if kinds[name] == nil {
		kinds[name] = &kind{}
	}
	return kinds[name]
}

// Offer notes that a call is due.
func (l *Ledger) Offer(c *Call) {
	if c.At >= l.plan.Warmup {
		l.tenants[c.Tenant].offered++
	}
}

// CutShort says that the run ended at a time before its end.
func (l *Ledger) CutShort(at time.Duration) { l.ended = max(at, l.plan.Warmup) }

// seconds is how long was measured.
func (l *Ledger) seconds() float64 { return (l.ended - l.plan.Warmup).Seconds() }

// Add notes what became of a call that was sent.
func (l *Ledger) Add(s *Sample) {
	t := &l.tenants[s.Tenant]
	if s.Outcome == OK && s.End >= l.plan.Warmup && s.End < l.plan.end() {
		t.good++
		t.goodTokens += s.Usage.Input + s.Usage.Output
	}
	l.course.ended(s)
	l.course.due(s)
	if s.At < l.plan.Warmup {
		return
	}
	t.add(s)
	if s.Held {
		l.held++
	}
}

func (t *tally) add(s *Sample) {
	t.sent++
	t.attempts += int64(s.Attempts)
	t.outcomes[s.Outcome]++
	if s.Attempts > 1 {
		t.retried++
	}
	if s.Outcome == OK {
		t.input += s.Usage.Input
		t.output += s.Usage.Output
		if !s.Reported {
			t.silent++
		}
	}
	if s.Outcome == Failed {
		k := of(t.failures, s.Failure)
		k.count++
		if k.example == "" {
			k.example = s.Example
		}
	}
	for _, r := range s.Refusals {
		k := of(t.refusals, r.Kind)
		k.count++
		t.times.record(ToRefusal, r.Took)
		if r.Hint > 0 {
			k.times.record(Hint, r.Hint)
			t.times.record(Hint, r.Hint)
		}
	}
	t.addTimes(s)
}

func (t *tally) addTimes(s *Sample) {
	t.times.span(Late, s.At, s.Left)
	answered := s.Outcome == OK || s.Outcome == Broken
	if answered {
		t.times.span(HeadersDue, s.At, s.Headers)
		t.times.span(HeadersSent, s.Sent, s.Headers)
	}
	if answered && s.Stream {
		t.times.span(TTFTDue, s.At, s.First)
		t.times.span(TTFTSent, s.Sent, s.First)
		for _, gap := range s.Gaps {
			t.times.record(Between, gap)
		}
	}
	if s.Outcome == OK || s.TimedOut {
		t.times.span(LatencyDue, s.At, s.End)
		t.times.span(LatencySent, s.Sent, s.End)
	}
}

// merge adds another tenant's tally.
func (t *tally) merge(o *tally) {
	t.offered += o.offered
	t.sent += o.sent
	t.attempts += o.attempts
	t.retried += o.retried
	for i, n := range o.outcomes {
		t.outcomes[i] += n
	}
	t.input += o.input
	t.output += o.output
	t.silent += o.silent
	t.good += o.good
	t.goodTokens += o.goodTokens
	t.times.merge(&o.times)
	mergeKinds(t.refusals, o.refusals)
	mergeKinds(t.failures, o.failures)
}

func mergeKinds(into, from map[string]*kind) {
	for _, name := range slices.Sorted(maps.Keys(from)) { // in one order, or which find no room would be chance
		k := from[name]
		to := of(into, name)
		to.count += k.count
		to.times.merge(&k.times)
		if to.example == "" {
			to.example = k.example
		}
	}
}
