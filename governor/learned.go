package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
)

// learned are the lessons of a pool from the calls it served: how many tokens each kind produces,
// how long it runs, and how fast tokens come.
type learned struct {
	outputs *lengths.Book // in tokens
	runs    *lengths.Book // in milliseconds
	speed   int64         // output tokens in 1000 s, a moving average
	ran     time.Duration // by the call that ran longest

	replan     Timer
	replanning bool // the timer runs, or its function does
}

const (
	// firstSpeed is assumed of a pool that has served nobody yet: 50 tokens a second, in the unit
	// of learned.speed.
	firstSpeed = 50_000
	// longestRun is the longest time that a call is expected to run.
	longestRun = 10 * time.Minute
)

func newLearned() learned {
	return learned{outputs: lengths.New(lengths.Config{}), runs: lengths.New(lengths.Config{}), speed: firstSpeed}
}

func (l *learned) lessons() record.Lengths {
	return record.Lengths{Outputs: l.outputs.Lessons(), Runs: l.runs.Lessons(), Speed: l.speed, Ran: l.ran}
}

// recall takes in what an earlier process had learned.
func (l *learned) recall(from record.Lengths) {
	l.outputs.Recall(from.Outputs)
	l.runs.Recall(from.Runs)
	if from.Speed > 0 {
		l.speed = min(from.Speed, terms.MaxTokens)
	}
	l.ran = min(max(0, from.Ran), longestRun)
}

// look begins (on) or ends a stretch in which expectations are only looked up and nothing may
// be learned from the questions.
func (l *learned) look(on bool) {
	l.outputs.Looking(on)
	l.runs.Looking(on)
}

// kindOf is the kind under which the length of a call is learned.
func kindOf(v *tenantView, req *Request) lengths.Kind {
	k := lengths.Kind{Tenant: terms.OwnerOf(v.name), Tier: v.cfg.Tier, Model: req.Model}
	if req.Told {
		return toldKind(k)
	}
	return k
}

// expect fills in the expected cost of a call, and returns its course.
func (p *pool) expect(v *tenantView, at *seat, req *Request, call *escrow.Call) course {
	at = at.whole()
	c := course{kind: kindOf(v, req), most: req.Output}
	output := p.outputs.ExpectAt(&at.places.outputs, c.kind, req.Output)
	call.Input = p.weights.cost(Usage{Input: req.Input})
	call.Expect = p.weights.cost(Usage{Input: req.Input, Output: output})
	if p.weights.HeldOutput > 0 && !req.Told { // what it will probably come to is held, if that is more
		call.Most[escrow.Tokens] = max(call.Most[escrow.Tokens], call.Expect)
		call.Most[escrow.Output] = max(call.Most[escrow.Output], call.Expect-call.Input)
	}
	call.Fair = max(1, p.weights.fair(Usage{Input: req.Input, CachedInput: at.expectCached(req.Input), Output: output}))
	call.Speed = p.secondCost()
	if p.rules.Concurrency > 0 {
		call.Run = p.boundRun(p.runs.ExpectAt(&at.places.runs, c.kind, longestRun.Milliseconds()), 0)
	}
	return c
}

// boundRun is how long a call of that age is taken to run that is expected to run for so many ms:
// at most twice as long as any call has, or as it has itself. While few calls have ended, the
// expectation is longestRun or close to it; charged for that, and given most of it back later, a
// tenant would stand before all others for minutes. 0 means unknown.
func (l *learned) boundRun(expected int64, age time.Duration) time.Duration {
	run := time.Duration(expected) * time.Millisecond
	if run >= longestRun {
		return 0
	}
	return min(run, 2*max(l.ran, age))
}

// secondCost is the cost of one second of output.
func (p *pool) secondCost() int64 {
	return max(1, p.weights.cost(Usage{Output: p.speed})/1000)
}

// start begins a call's course, at its dispatch.
func (p *pool) start(st *leaseState) {
	c := &st.course
	at := st.seat.whole()
	c.output = p.outputs.StartAt(&at.places.outputs, c.kind, c.most)
	if p.rules.Concurrency > 0 {
		c.run = p.runs.StartAt(&at.places.runs, c.kind, longestRun.Milliseconds())
	}
	p.see(st)
}

// progress tells the escrow how far a running call has come, and its expected
// cost now.
func (p *pool) progress(now time.Time, h escrow.Handle, st *leaseState) {
	var told escrow.Progress
	if st.flowing() {
		expect := p.outputs.Reach(&st.course.output, st.output)
		told.Taken = p.weights.cost(Usage{Input: st.input, Output: st.output})
		told.Expect = p.weights.cost(Usage{Input: st.input, Output: expect})
		told.Taken = st.holds.belief.tokens(told.Taken)
		told.Expect = st.holds.belief.tokens(told.Expect)
		told.Speed = p.speedOf(now, st)
	}
	if p.rules.Concurrency > 0 {
		age := now.Sub(st.since)
		told.Run = p.boundRun(p.runs.Reach(&st.course.run, age.Milliseconds()), age)
	}
	p.escrow.Progress(now, h, told)
}

// speedOf is the cost of one second of a stream's output: its own once it has flowed for a second, else that of the pool's calls. Planned at
// their mean, streams that are faster would exceed the limit.
func (p *pool) speedOf(now time.Time, st *leaseState) int64 {
	flows := now.Sub(st.flowed)
	flowed := st.output - st.early
	if flows < time.Second || flowed <= 0 {
		return p.secondCost()
	}
	return max(1, p.weights.cost(Usage{Output: flowed})*1000/flows.Milliseconds())
}

// While calls wait, running calls are looked at again after replanEvery: the longer a call has
// run, the longer it can be expected to run.
const replanEvery = 250 * time.Millisecond

// replanLater sets the timer for looking at running calls, if any wait.
func (g *Governor) replanLater(p *pool) {
	if p.rules.Concurrency == 0 || p.replanning || p.escrow.Waiting() == 0 {
		return
	}
	p.replanning = true
	if p.replan == nil {
		p.replan = g.after(replanEvery, func(now time.Time) { g.replanRunning(p, now) })
	} else {
		p.replan.Reset(replanEvery)
	}
}

// replanRunning updates the charges of running calls for their slots.
func (g *Governor) replanRunning(p *pool, now time.Time) {
	for slot := 0; slot < len(p.leases); slot++ {
		st := &p.leases[slot]
		if st.seat != nil && st.waiter == nil {
			p.progress(now, p.escrow.HandleAt(slot), st)
		}
		now = g.breathe(slot, now)
	}
	p.replanning = false
	g.pump(p, now)
}

// learn learns from a call that has ended. whole says that it came to its own end; of one
// that was cut off it is only known that it would have been longer.
func (p *pool) learn(now time.Time, st *leaseState, u Usage, whole bool) {
	output := u.Output
	ran := now.Sub(st.since)
	p.outputs.End(&st.course.output, output, whole)
	p.runs.End(&st.course.run, ran.Milliseconds(), whole)
	if st.holds.belief.by != "" {
		return
	}
	l := &p.learned
	l.ran = max(l.ran, ran)
	p.slots.Ran(now, ran)
	if whole && output > 0 && ran >= time.Millisecond {
		sample := min(output, terms.MaxTokens/1000) * 1000 * 1000 / ran.Milliseconds()
		p.speed += (sample - p.speed) / 16
	}
	if at := p.present(st.seat); whole && at != nil && u.Input > 0 {
		at.cached += (min(u.CachedInput, u.Input)*million/u.Input - at.cached) / 16
	}
}

// million is the whole, where parts are in millionths.
const million = 1_000_000

// expectCached is how much of a prompt will probably be read from the provider's cache.
func (s *seat) expectCached(input int64) int64 {
	whole := input / million
	rest := input % million
	return whole*s.cached + rest*s.cached/million
}
