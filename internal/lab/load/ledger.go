package load

import (
	"maps"
	"slices"
	"time"
)

// mostKinds bounds the kinds of refusals and failures, because their names come from servers.
const mostKinds = 40

// Ledger adds up the outcomes of calls, without keeping the calls. It is not safe for
// concurrent use.
type Ledger struct {
	plan    *Plan
	tenants []tally
	course  *course
	held    int64
	// ended is the end of the run, which may be cut short.
	ended time.Duration
}

// NewLedger is an empty one.
func NewLedger(p *Plan) *Ledger {
	l := &Ledger{plan: p, tenants: make([]tally, len(p.Tenants)), course: newCourse(p), ended: p.end()}
	for i := range l.tenants {
		l.tenants[i].refusals = map[string]*kind{}
		l.tenants[i].failures = map[string]*kind{}
	}
	return l
}

// tally has the outcomes of one tenant's calls.
type tally struct {
	offered, sent, attempts, retried int64
	outcomes                         [Unfinished + 1]int64
	refusals, failures               map[string]*kind
	input, output                    int64 // as reported, of whole answers
	silent                           int64 // whole answers without usage
	good, goodTokens                 int64 // of whole answers that ended within the measured time
	times                            times
}

// kind is one kind of refusal or failure.
type kind struct {
	count   int64
	example string
	times   times // Hint only
}

// others is the kind for those beyond mostKinds.
const others = "other"

// of finds a kind, or adds it while there are fewer than mostKinds.
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

// Offer counts a call that is due.
func (l *Ledger) Offer(c *Call) {
	if c.At >= l.plan.Warmup {
		l.tenants[c.Tenant].offered++
	}
}

// CutShort records that the run ended early.
func (l *Ledger) CutShort(at time.Duration) { l.ended = max(at, l.plan.Warmup) }

// seconds is the length of the measured time.
func (l *Ledger) seconds() float64 { return (l.ended - l.plan.Warmup).Seconds() }

// Add counts the outcome of a call that was sent.
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
	for _, name := range slices.Sorted(maps.Keys(from)) { // sorted, so that the kinds beyond mostKinds are always the same
		k := from[name]
		to := of(into, name)
		to.count += k.count
		to.times.merge(&k.times)
		if to.example == "" {
			to.example = k.example
		}
	}
}
