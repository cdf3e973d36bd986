package plan

import (
	"container/heap"
	"fmt"
	"math"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/muldiv"
	"github.com/llmgov/llmgov/internal/ops/decisions"
)

// Policy decides a record again.
type Policy struct {
	Governor governor.Config
	// Ask is how a call of the record is asked for: it may turn the request into another,
	// or say why it is refused before the governor is asked. nil leaves all as they are.
	Ask func(*governor.Request) *decisions.Why
	// Price is the price of a call of the record at an upstream, by its name. nil is as it was.
	Price func(r *governor.Request, upstream string) *governor.Price
	// Own says that the policy is the record's, which changes when that did.
	Own bool
}

// OwnPolicy is the one that was in force at the start of a run.
func (r *Run) OwnPolicy() Policy { return Policy{Governor: configOf(r.Policy), Own: true} }

func configOf(p *decisions.Policy) governor.Config {
	return governor.Config{Revision: p.Hash, Pools: p.Pools, Tenants: p.Tenants}
}

// Result is the new decision about a call, and its usage.
type Result struct {
	Decision
	Took governor.Usage
	Ran  time.Duration
}

// replay has a run decided again.
type replay struct {
	run     *Run
	policy  Policy
	clock   *clock
	gov     *governor.Governor
	guess   *guess
	inputs  inputs
	came    int                  // of the run's calls
	byCall  map[uint64]*replayed // that are not decided
	asked   uint64
	results []Result
}

// replayed is a call on its second way.
type replayed struct {
	*Call
	asked  governor.Request // by the policy
	lease  governor.Lease
	leave  func()
	result *Result
	// imposed says that it goes as it did, whatever the policy says.
	imposed bool
}

// Replay has a run decided again by a policy. The results are in the order of
// run.Calls.
func (r *Run) Replay(p Policy) ([]Result, error) {
	zone, err := time.LoadLocation(r.Start.Zone)
	if err != nil {
		return nil, fmt.Errorf("the log is of the time zone %q: %w", r.Start.Zone, err)
	}
	v := &replay{
		run: r, policy: p, guess: guessOf(r), results: make([]Result, len(r.Calls)), byCall: map[uint64]*replayed{},
		clock: &clock{origin: r.Start.Time, now: r.Start.Time},
	}
	cfg := r.config(p.Governor)
	cfg.Zone = zone
	cfg.Clock = v.clock
	cfg.Observer = v
	cfg.Recorded = true
	cfg.Fresh = r.Start.Fresh
	if r.Start.Past != nil {
		cfg.Past = r.Start.Past.Past(r.Start.Time, zone)
	}
	v.gov, err = governor.New(cfg)
	if err != nil {
		return nil, err
	}
	for i := range r.changes {
		c := &r.changes[i]
		v.at(c.At, c.line, func() error { return v.change(c) })
	}
	if err := v.live(); err != nil {
		return nil, err
	}
	clear(v.byCall)
	v.gov.Drain() // calls still wait
	return v.results, nil
}

// come puts the calls on the agenda that come before its first input.
func (v *replay) come() {
	for ; v.came < len(v.results); v.came++ {
		c := v.run.Calls[v.came]
		if len(v.inputs) > 0 && v.inputs[0].at < c.At {
			return
		}
		call := &replayed{Call: c, result: &v.results[v.came]}
		call.result.Outcome = Open
		if v.run.takenAsItWas(c) {
			v.impose(call)
			continue
		}
		v.at(c.At, c.lines.ask, func() error { v.ask(call); return nil })
		if c.leftAt > 0 {
			v.at(c.leftAt, c.lines.left, func() error { v.left(call); return nil })
		}
	}
}

// impose has a call go, or not, as it did, so that it counts for those that come later.
func (v *replay) impose(c *replayed) {
	*c.result = Result{c.Decided, c.Took, c.Ran}
	if c.Decided.Outcome != Admitted {
		return
	}
	c.imposed = true
	v.at(c.Decided.At, c.lines.ask, func() error { v.ask(c); return nil })
}

// live goes through the list, and lets the governor's alarm go off in between, until
// there is nothing more to be told, and all are decided.
func (v *replay) live() error {
	for v.come(); len(v.inputs) > 0 || len(v.byCall) > 0; v.come() {
		next := int64(math.MaxInt64)
		if len(v.inputs) > 0 {
			next = v.inputs[0].at
		}
		if v.clock.ringBefore(next) {
			continue
		}
		if len(v.inputs) == 0 {
			return nil // nobody wakes those who wait; the record breaks off here too
		}
		in := heap.Pop(&v.inputs).(input)
		v.clock.moveTo(in.at)
		if err := in.tell(); err != nil {
			return err
		}
	}
	return nil
}

func (v *replay) ask(c *replayed) {
	req := c.Request
	req.Forced = req.Forced || c.imposed
	if len(c.Upstreams) > 0 {
		req.Listed = c.Upstreams
		req.Via = math.MaxUint64
	}
	if v.policy.Ask != nil {
		if why := v.policy.Ask(&req); why != nil && !c.imposed {
			c.result.Decision = Decision{Outcome: Refused, At: c.At, Why: why}
			return
		}
	}
	c.asked = req
	v.asked++
	v.byCall[v.asked] = c
	c.leave = v.gov.Ask(req, func(l governor.Lease, _ *governor.Refusal) { c.lease = l })
}

// left is told that a caller has gone away, if it waits still.
func (v *replay) left(c *replayed) {
	if c.leave != nil {
		c.leave()
	}
}

func (v *replay) change(c *change) error {
	switch c.Kind {
	case decisions.Applied:
		if v.policy.Own {
			return v.gov.Apply(v.run.config(configOf(c.Policy)))
		}
	case decisions.Throttled:
		var cuts []governor.Cut
		for _, cut := range c.Cuts {
			cuts = append(cuts, governor.Cut{Part: cut.Part, TPM: cut.TPM, RPM: cut.RPM, ITPM: cut.ITPM, OTPM: cut.OTPM, Paced: cut.Paced, Until: v.clock.origin.Add(time.Duration(cut.Until)), Upstream: cut.Upstream})
		}
		v.gov.Throttle(c.Pool, cuts)
	case decisions.Loaded:
		v.gov.ServersLoaded(c.Pool, *c.Load)
	case decisions.Told:
		v.clock.moveTo(int64(c.Told.Then))
		v.gov.Retell(c.Told)
	case decisions.Drained:
		v.gov.Drain()
	}
	return nil
}

// Observe implements governor.Observer: it takes down what is decided, and plans what
// follows from that.
func (v *replay) Observe(e governor.Event) {
	c := v.byCall[e.Call]
	if c == nil || e.Kind != governor.EventAdmitted && e.Kind != governor.EventRefused {
		return
	}
	delete(v.byCall, e.Call)
	d := Decision{Outcome: Admitted, At: int64(e.At.Sub(v.clock.origin)), Waited: e.Waited, Why: decisions.WhyOf(e.Refused)}
	if c.imposed {
		d = c.Decided
	}
	if d.Outcome == Admitted && e.Kind == governor.EventRefused {
		d.Outcome = refusedAs(d.Why)
		*c.result = Result{Decision: d}
		return
	}
	if was := c.Decided; was.Outcome == Refused && was.Why.Reason == governor.ReasonStore.String() {
		c.result.Decision = was // it was let go and, as that could not be kept, taken back
		v.at(d.At, c.lines.ask, func() error { c.lease.Release(); return nil })
		return
	}
	*c.result = Result{d, c.Took, c.Ran}
	how := c.Ending
	if c.Decided.Outcome != Admitted { // nobody knows how much it would have taken
		c.result.Took, c.result.Ran = v.guess.of(&c.Request)
		how = governor.EndSettled.String()
	} else {
		for _, p := range c.progress {
			v.at(d.At+int64(p.after), p.line, func() error { v.tell(c, p); return nil })
		}
	}
	if how == "" {
		return // it ran on when the record ended
	}
	line := c.lines.end
	if line == 0 {
		line = math.MaxInt64
	}
	v.at(d.At+int64(c.result.Ran), line, func() error { end(v.priced(c), how, c.result.Took); return nil })
}

// tell repeats the recorded events of a running call.
func (v *replay) tell(c *replayed, p progress) {
	l := c.lease
	switch p.kind {
	case decisions.Moved:
		l.Move(p.moved.Upstreams, *p.moved.Usage, p.moved.Sent)
	case decisions.Overload:
		l.Overloaded()
	case decisions.Late:
		l.Late()
	case decisions.Retried:
		l.Retried()
	case decisions.Failed:
		l.Failed()
	default:
		l.Progress(p.output)
	}
}

// priced is the lease of a call with what it cost, or costs by the policy at the upstream where it was.
func (v *replay) priced(c *replayed) governor.Lease {
	switch {
	case c.Decided.Outcome != Admitted || c.microUSD == nil:
		return c.lease
	case v.policy.Price == nil:
		return c.lease.Costing(*c.microUSD)
	case c.Upstream == "":
		return c.lease.Costing(c.inProportion())
	}
	return c.lease.Costing(v.policy.Price(&c.Request, c.Upstream).MicroUSD(c.Took))
}

// inProportion is the cost of a call whose upstream the record does not name: as much more or less than it cost as the dearest
// upstream takes now.
func (c *replayed) inProportion() int64 {
	dearest := c.asked.Price.MicroUSD(c.Took)
	was := c.Request.Price.MicroUSD(c.Took)
	if was == 0 {
		return dearest
	}
	return muldiv.Floor(*c.microUSD, dearest, was)
}

// end ends a lease as it was ended.
func end(l governor.Lease, how string, u governor.Usage) {
	switch how {
	case governor.EndSettled.String():
		l.Settle(u)
	case governor.EndBroken.String():
		l.Break(u)
	case governor.EndCharged.String():
		l.Charge(u)
	case governor.EndPostponed.String():
		l.Postpone()
	default:
		l.Release()
	}
}

// input is something that the governor is told at a time.
type input struct {
	at, line int64 // of the same time, in the order of the record
	tell     func() error
}

func (v *replay) at(at, line int64, tell func() error) { heap.Push(&v.inputs, input{at, line, tell}) }

type inputs []input

func (in inputs) Len() int { return len(in) }
func (in inputs) Less(i, j int) bool {
	return in[i].at < in[j].at || in[i].at == in[j].at && in[i].line < in[j].line
}
func (in inputs) Swap(i, j int) { in[i], in[j] = in[j], in[i] }
func (in *inputs) Push(x any)   { *in = append(*in, x.(input)) }
func (in *inputs) Pop() any {
	last := len(*in) - 1
	x := (*in)[last]
	(*in)[last] = input{}
	*in = (*in)[:last]
	return x
}
