package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/lengths"
)

// learned is what a pool has learned of the calls that it served: how many tokens
// each kind produces, for how long it runs, and how fast tokens come. It is
// guarded by the pool's lock.
type learned struct {
	outputs *lengths.Book // in tokens
	runs    *lengths.Book // in milliseconds
	speed   int64         // output tokens in 1000 s, a moving average
	ran     time.Duration // the longest that a call did

	replan     Timer
	replanning bool // the timer runs, or its function does
}

const (
	// firstSpeed is what is assumed of a pool that has served nobody yet: 50 tokens
	// a second, as hosted models of today do.
	firstSpeed = 50_000
	// longestRun is the longest that a call is expected to run.
	longestRun = 10 * time.Minute
)

func newLearned() learned {
	return learned{outputs: lengths.New(lengths.Config{}), runs: lengths.New(lengths.Config{}), speed: firstSpeed}
}

// lookLocked says that who asks what is expected only looks, or no more.
func (l *learned) lookLocked(on bool) {
	l.outputs.Looking(on)
	l.runs.Looking(on)
}

// course is what one call is expected to do, and how far it has come.
type course struct {
	kind   lengths.Kind
	most   int64 // output tokens
	output lengths.Stream
	run    lengths.Stream
}

// kindOf is what a call is told apart by, when lengths are learned.
func kindOf(v *tenantView, req *Request) lengths.Kind {
	return lengths.Kind{Tenant: v.name, Tier: v.cfg.Tier, Model: req.Model}
}

// expectLocked completes a call with what it will probably take.
func (p *pool) expectLocked(v *tenantView, at *seat, req *Request, call *escrow.Call) course {
	c := course{kind: kindOf(v, req), most: req.Output}
	output := p.outputs.ExpectOf(c.kind, req.Output)
	call.Input = p.rules.Weights.cost(Usage{Input: req.Input})
	call.Expect = p.rules.Weights.cost(Usage{Input: req.Input, Output: output})
	call.Fair = max(1, p.rules.Weights.fair(Usage{Input: req.Input, CachedInput: at.expectCached(req.Input), Output: output}))
	call.Speed = p.speedLocked()
	if p.rules.Concurrency > 0 {
		call.Run = p.boundRun(p.runs.ExpectOf(c.kind, longestRun.Milliseconds()), 0)
	}
	return c
}

// boundRun is how long a call of an age is taken to run that is expected to run so long: not twice
// as long as any has, or it has itself. While few calls have ended nobody knows how long those will that
// have not, and who is charged for ten minutes and given most of that back stands before
// all others for minutes. 0 is nothing that is known.
func (l *learned) boundRun(expected int64, age time.Duration) time.Duration {
	run := time.Duration(expected) * time.Millisecond
	if run >= longestRun {
		return 0
	}
	return min(run, 2*max(l.ran, age))
}

// speedLocked is how much cost a second of output is.
func (p *pool) speedLocked() int64 {
	return max(1, p.rules.Weights.cost(Usage{Output: p.speed})/1000)
}

// startLocked lets a call's course begin, as it is dispatched.
func (p *pool) startLocked(st *leaseState) {
	c := &st.course
	c.output = p.outputs.Start(c.kind, c.most)
	if p.rules.Concurrency > 0 {
		c.run = p.runs.Start(c.kind, longestRun.Milliseconds())
	}
	p.sightLocked(st)
}

// progressLocked tells the escrow how far a running call has come, and what it is
// expected to take now.
func (p *pool) progressLocked(now time.Time, h escrow.Handle, st *leaseState) {
	var told escrow.Progress
	if st.flowing {
		expect := p.outputs.Reach(&st.course.output, st.output)
		told.Taken = p.rules.Weights.cost(Usage{Input: st.input, Output: st.output})
		told.Expect = p.rules.Weights.cost(Usage{Input: st.input, Output: expect})
		told.Speed = p.speedLocked()
	}
	if p.rules.Concurrency > 0 {
		age := now.Sub(st.since)
		told.Run = p.boundRun(p.runs.Reach(&st.course.run, age.Milliseconds()), age)
	}
	p.escrow.Progress(now, h, told)
}

const (
	// replanEvery is how often calls that occupy slots are looked at while others
	// wait for them: the longer a call runs, the longer it can be expected to.
	replanEvery = 250 * time.Millisecond
	// replanStride is how many calls are looked at under one lock.
	replanStride = 256
)

// replanLaterLocked sees to it that running calls are looked at, if any wait.
func (g *Governor) replanLaterLocked(p *pool) {
	if p.rules.Concurrency == 0 || p.replanning || p.escrow.Waiting() == 0 {
		return
	}
	p.replanning = true
	if p.replan == nil {
		p.replan = g.clock.AfterFunc(replanEvery, func() { g.replanRunning(p) })
	} else {
		p.replan.Reset(replanEvery)
	}
}

// replanRunning raises what running calls are charged for their slots.
func (g *Governor) replanRunning(p *pool) {
	now := g.clock.Now()
	for from, more := 0, true; more; from += replanStride {
		p.mu.Lock()
		for slot := from; slot < min(from+replanStride, len(p.leases)); slot++ {
			if st := &p.leases[slot]; st.tenant != nil && st.waiter == nil {
				p.progressLocked(now, p.escrow.HandleAt(slot), st)
			}
		}
		if more = from+replanStride < len(p.leases); more {
			p.mu.Unlock()
		}
	}
	p.replanning = false
	g.pumpAndUnlock(p, now)
}

// learnLocked takes in how a call ended. whole says that it came to its own end;
// of one that was cut off it is only known that it would have been longer.
func (p *pool) learnLocked(now time.Time, st *leaseState, u Usage, whole bool) {
	output := u.Output
	ran := now.Sub(st.since)
	p.outputs.End(&st.course.output, output, whole)
	p.runs.End(&st.course.run, ran.Milliseconds(), whole)
	l := &p.learned
	l.ran = max(l.ran, ran)
	if p.lent != nil {
		p.lent.longest.note(now, ran)
	}
	if whole && output > 0 && ran >= time.Millisecond {
		sample := min(output, maxTokens/1000) * 1000 * 1000 / ran.Milliseconds()
		p.speed += (sample - p.speed) / 16
	}
	if at := p.seats[st.tenant]; whole && at != nil && u.Input > 0 {
		at.cached += (min(u.CachedInput, u.Input)*million/u.Input - at.cached) / 16
	}
}

const million = 1_000_000

// expectCached is how much of a prompt will probably come from a cache.
func (s *seat) expectCached(input int64) int64 {
	whole, rest := input/million, input%million
	return whole*s.cached + rest*s.cached/million
}
