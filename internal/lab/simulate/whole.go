package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// wholeCalls is a scheduler that knows what the fluid oracle gives everybody, and whose callers are always there. Like a
// real one it hands out the limit at a steady rate, in whole calls, and serves each tenant in order: whoever is furthest
// behind the oracle is next. What it misallocates is the size of the calls. The nil wholeCalls does nothing.
type wholeCalls struct {
	*plan
	measure
	rng      *rand.Rand
	owed     []float64 // by leaf
	queues   [][]wholeCall
	works    []float64 // by leaf, the next call of its workers; 0 for one that is not drawn yet
	budget   float64
	received *grid
}

// wholeCall is served at once or not at all.
type wholeCall struct {
	amount  float64
	expires time.Duration
}

// newWholeCalls returns nil if calls flow, or need several limits.
func (p *plan) newWholeCalls(measures []measure) *wholeCalls {
	m := measures[0]
	if len(measures) > 1 || m.axis == escrow.Slots || p.Pool.Accounting == escrow.Production {
		return nil
	}
	n := len(p.tree.Leaves)
	return &wholeCalls{
		plan: p, measure: m, rng: randomStream(p.seed, 0, streamWhole), received: p.windows(),
		owed: make([]float64, n), queues: make([][]wholeCall, n), works: make([]float64, n),
	}
}

// come is an open request.
func (s *wholeCalls) come(r *Request) {
	if s != nil {
		s.queues[r.Tenant] = append(s.queues[r.Tenant], wholeCall{s.of(r), r.At + s.Patience})
	}
}

// owe is what the oracle gives a leaf.
func (s *wholeCalls) owe(leaf int, amount float64) {
	if s != nil {
		s.owed[leaf] += amount
	}
}

// step serves calls until the next step.
func (s *wholeCalls) step(now time.Duration) {
	if s == nil {
		return
	}
	s.budget += s.there(s.measure, now, now+fluidStep)
	for s.budget > 0 {
		leaf, amount := s.furthestBehind(now)
		if leaf < 0 {
			s.budget = 0
			return
		}
		if len(s.queues[leaf]) > 0 {
			s.queues[leaf] = s.queues[leaf][1:]
		} else {
			s.works[leaf] = 0
		}
		s.owed[leaf] -= amount
		s.budget -= amount
		s.received.add(now, leaf, amount)
	}
}

// furthestBehind is the leaf that is furthest behind the oracle if half of its next call is served, and what that takes;
// -1 if nobody asks.
func (s *wholeCalls) furthestBehind(now time.Duration) (leaf int, amount float64) {
	leaf = -1
	most := 0.0
	for i := range s.queues {
		next := s.next(i, now)
		if behind := s.owed[i] - next/2; next > 0 && (leaf < 0 || behind > most) {
			leaf = i
			amount = next
			most = behind
		}
	}
	return leaf, amount
}

// next is what the next call of a leaf takes; 0 if it has none.
func (s *wholeCalls) next(leaf int, now time.Duration) float64 {
	q := s.queues[leaf]
	for len(q) > 0 && (q[0].expires < now || q[0].amount == 0) {
		q = q[1:]
	}
	s.queues[leaf] = q
	switch {
	case len(q) > 0:
		return q[0].amount
	case s.workers(leaf, now) == 0:
		return 0
	case s.works[leaf] == 0:
		one := drawSample(&s.tree.Leaves[leaf].Work, s.rng, s.factor(leaf, now))
		s.works[leaf] = s.of(&Request{Tokens: one.input + one.output, Input: one.input})
	}
	return s.works[leaf]
}
