package plan

import (
	"fmt"
	"iter"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/decisions"
)

// Outcome is the end of a call.
type Outcome string

// The outcomes of calls. Of an open one the record ends before it is decided.
const (
	Open     Outcome = "open"
	Admitted Outcome = "admitted"
	Refused  Outcome = "refused"
	Left     Outcome = "left" // its caller went away while it waited
)

// Decision is how a call was decided.
type Decision struct {
	Outcome Outcome
	At      int64 // nanoseconds of the run
	Waited  time.Duration
	Why     *decisions.Why // also of a shadow that was admitted
}

// Call is a call of a record.
type Call struct {
	Number  uint64
	At      int64
	Request governor.Request
	Decided Decision
	// Took is its usage, and Ran its duration; Ending is empty if it ran on.
	Took   governor.Usage
	Ran    time.Duration
	Ending string
	// Upstreams are those to which it could go, by their names; none is all. Upstream is where it was counted last.
	Upstreams []string
	Upstream  string
	microUSD  *int64     // that it cost
	progress  []progress // and upstreams' failures
	leftAt    int64      // 0 = never
	lines     struct{ ask, left, end int64 }
}

type progress struct {
	kind   decisions.Kind // or Overload, Late, Retried, Failed
	line   int64
	after  time.Duration
	output int64
	moved  *decisions.Line // of Moved
}

// change is an event that concerns all calls: an apply, a throttle, a load of servers, a drain, or a grant.
type change struct {
	decisions.Line
	line int64
}

// Run is one life of a gateway, or of gateways that share limits (see together).
type Run struct {
	Start   decisions.Start
	Policy  *decisions.Policy
	Calls   []*Call
	changes []change
	seen    []sighting
	open    map[uint64]*Call // that have not ended
	names   map[string]string
	// Lost is how many lines are missing, and Late says that the run's beginning is: what was
	// before since is not known.
	Lost  uint64
	Late  bool
	since int64

	begin, end int64 // the first line and the last
	// fleet says that it is of all that gateways did that share limits.
	fleet bool
}

// sighting is which gateways there were.
type sighting struct {
	at    int64
	nodes []string
}

// ReadLog takes in the lines of a log.
func ReadLog(path string, lines iter.Seq2[decisions.Line, error]) (Log, error) {
	log := Log{Path: path}
	var run *Run
	n := int64(0)
	for l, err := range lines {
		if err != nil {
			return Log{}, err
		}
		n++
		// A file that goes on from one which is not there may be of another process than those before it.
		if l.Start != nil && (l.Kind == decisions.Started || run == nil || !l.Start.Time.Equal(run.Start.Time)) {
			run = &Run{Start: *l.Start, Policy: l.Policy, open: map[uint64]*Call{}, names: map[string]string{}, Late: l.Kind == decisions.Continued}
			run.since = l.At
			run.begin = l.At
			run.end = l.At
			log.Runs = append(log.Runs, run)
		}
		if run == nil {
			return Log{}, fmt.Errorf("%s: line %d is not the beginning of a decision log; name the file as decision_log.path does", path, n)
		}
		run.take(&l, n)
	}
	if run == nil {
		return Log{}, fmt.Errorf("%s is empty: no gateway with this decision_log has been started", path)
	}
	return log, nil
}

func (r *Run) take(l *decisions.Line, line int64) {
	r.end = max(r.end, l.At)
	switch l.Kind {
	case decisions.Asked:
		c := &Call{Number: l.Call, At: l.At, Request: l.Ask.Of(), Decided: Decision{Outcome: Open}, Upstreams: l.Ask.Upstreams}
		c.lines.ask = line
		for _, name := range []*string{&c.Request.Tenant, &c.Request.Pool, &c.Request.Model} {
			*name = r.once(*name)
		}
		r.Calls = append(r.Calls, c)
		r.open[l.Call] = c
		return
	case decisions.Applied, decisions.Throttled, decisions.Drained, decisions.Loaded, decisions.Told:
		r.changes = append(r.changes, change{*l, line})
		return
	case decisions.Lost:
		r.Lost += l.Lines
		return
	case decisions.Started, decisions.Continued, decisions.Seen:
		if l.Nodes != nil {
			r.seen = append(r.seen, sighting{l.At, l.Nodes})
		}
		return
	}
	c := r.open[l.Call]
	if c == nil {
		if !r.Late { // else it may have asked before the log begins
			r.Lost++
		}
		return
	}
	switch l.Kind {
	case decisions.Admitted, decisions.Refused:
		c.Upstream = l.Upstream
		c.Decided = Decision{Outcome: Admitted, At: l.At, Waited: time.Duration(l.Waited), Why: l.Why}
		if l.Kind == decisions.Refused {
			c.Decided.Outcome = refusedAs(l.Why)
			delete(r.open, l.Call)
		}
	case decisions.Left:
		c.leftAt = l.At
		c.lines.left = line
	case decisions.Progress, decisions.Overload, decisions.Late, decisions.Retried, decisions.Failed, decisions.Moved:
		p := progress{kind: l.Kind, line: line, after: time.Duration(l.At - c.Decided.At), output: l.Output}
		if l.Kind == decisions.Moved {
			p.moved = l
			c.Upstream = l.Upstream
		}
		c.progress = append(c.progress, p)
	case decisions.Ended:
		c.Took = *l.Usage
		c.Ran = time.Duration(l.At - c.Decided.At)
		c.Ending = l.Ending
		c.microUSD = l.MicroUSD
		c.lines.end = line
		delete(r.open, l.Call)
	}
}

// once is a text that is kept once, however many calls have it.
func (r *Run) once(text string) string {
	if _, ok := r.names[text]; !ok {
		r.names[text] = text
	}
	return r.names[text]
}

func refusedAs(why *decisions.Why) Outcome {
	if why.Reason == governor.ReasonCancelled.String() {
		return Left
	}
	return Refused
}

// Same reports whether two decisions are one, to the nanosecond and the token.
func (d *Decision) Same(o *Decision) bool {
	if (d.Why == nil) != (o.Why == nil) || d.Why != nil && *d.Why != *o.Why {
		return false
	}
	return d.Outcome == o.Outcome && d.At == o.At && d.Waited == o.Waited
}
