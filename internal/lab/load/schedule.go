package load

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"
)

// Call is one call, drawn.
type Call struct {
	Tenant         int
	At             time.Duration // when it is due, since the start of the run
	Prompt, Output int64         // tokens
	Stream         bool
	// BreakAfter is the number of parts of the answer after which it is broken off; 0 for never.
	BreakAfter int64
	// Luck, from 0 to 1, decides whether a storm breaks it off, and the jitter of retries.
	Luck float64
}

// Event is the next event: a call is due, or a storm breaks off a tenant's streams.
type Event struct {
	Call
	Storm bool
}

// Streams of random numbers. Each tenant has one for the times of calls and one for their content,
// so that another rate does not change the content.
const (
	streamArrivals = iota
	streamCalls
)

func randomStream(seed uint64, tenant, purpose int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(tenant)<<8|uint64(purpose)))
}

// Schedule gives the events of a run in the order of their times. It is a function of the
// plan alone.
type Schedule struct {
	plan    *Plan
	sources sources
	calls   []*rand.Rand
}

// NewSchedule is the schedule of a plan, at its beginning.
func NewSchedule(p *Plan) *Schedule {
	s := &Schedule{plan: p}
	for i := range p.Tenants {
		t := &p.Tenants[i]
		s.calls = append(s.calls, randomStream(p.Seed, i, streamCalls))
		rng := randomStream(p.Seed, i, streamArrivals)
		if t.Rate > 0 {
			s.add(source{tenant: i, next: t.arrivals(rng)})
		}
		if t.Burst.Every > 0 {
			s.add(source{tenant: i, next: repeat(t.Burst.Every, t.Burst.Size)})
		}
		if t.Storm.Every > 0 {
			s.add(source{tenant: i, storm: true, next: repeat(t.Storm.Every, 1)})
		}
	}
	return s
}

func (s *Schedule) add(src source) {
	src.order = len(s.sources)
	src.at = src.next()
	heap.Push(&s.sources, src)
}

// Next is the next event, and false after the end of the run.
func (s *Schedule) Next() (Event, bool) {
	if len(s.sources) == 0 || s.sources[0].at >= s.plan.end() {
		return Event{}, false
	}
	src := &s.sources[0]
	at := src.at
	tenant := src.tenant
	storm := src.storm
	src.at = src.next()
	heap.Fix(&s.sources, 0)
	if storm {
		return Event{Call: Call{Tenant: tenant, At: at}, Storm: true}, true
	}
	c := s.plan.Tenants[tenant].draw(s.calls[tenant])
	c.Tenant = tenant
	c.At = at
	return Event{Call: c}, true
}

// draw draws the content of a call. It takes the same number of draws for each call, so that a
// changed share does not change all later calls.
func (t *Tenant) draw(rng *rand.Rand) Call {
	c := Call{Prompt: tokens(t.Prompt.Draw(rng, 1)), Output: tokens(t.Output.Draw(rng, 1))}
	streams := rng.Float64()
	breaks := rng.Float64()
	after := rng.Float64()
	c.Luck = rng.Float64()
	c.Stream = t.Path != Embeddings && streams < t.Stream
	if c.Stream && breaks < t.Disconnect {
		c.BreakAfter = 1 + int64(after*float64(c.Output))
	}
	return c
}

func tokens(x float64) int64 { return max(1, int64(math.Round(x))) }

// notInThisRun is after the end of all runs, and small enough not to overflow in sums.
const notInThisRun = 1000 * Longest

// arrivals gives the times of calls, one after the other. They are computed from the
// start, not from each other, so that no rounding adds up.
func (t *Tenant) arrivals(rng *rand.Rand) func() time.Duration {
	sum := rng.Float64() // the phase of equal intervals; a Poisson process has none
	if t.Arrivals == Poisson {
		sum = rng.ExpFloat64()
	}
	rate := t.Rate
	constant := t.Arrivals == Constant
	return func() time.Duration {
		at := time.Duration(min(sum/rate*float64(time.Second), float64(notInThisRun)))
		if constant {
			sum++
		} else {
			sum += rng.ExpFloat64()
		}
		return at
	}
}

// repeat returns each multiple of every as many times as given.
func repeat(every time.Duration, times int64) func() time.Duration {
	n := int64(0)
	return func() time.Duration {
		at := every * time.Duration(n/times+1)
		n++
		return at
	}
}

// source is one cause of events, and the time of its next one.
type source struct {
	at     time.Duration
	order  int // among those of one instant
	tenant int
	storm  bool
	next   func() time.Duration
}

type sources []source

func (s sources) Len() int { return len(s) }
func (s sources) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].order < s[j].order
}
func (s sources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *sources) Push(x any)   { *s = append(*s, x.(source)) }

// Pop is part of heap.Interface. Sources have no end.
func (s *sources) Pop() any { panic("load: BUG: a source was removed") }
