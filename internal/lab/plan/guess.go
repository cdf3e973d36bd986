package plan

import (
	"time"

	"github.com/llmgov/llmgov/governor"
)

// guess estimates the usage of a call that was never admitted: the usage of those of its tenant
// and model took, or of its pool, or of all.
type guess struct{ sums map[likeness]*sum }

type likeness struct{ tenant, model, pool string }

// sum is over calls that came to their end.
type sum struct {
	calls, asked, input, output int64
	ran                         time.Duration
}

func guessOf(r *Run) *guess {
	g := &guess{map[likeness]*sum{}}
	for _, c := range r.Calls {
		if c.Ending != governor.EndSettled.String() || c.Request.Forced {
			continue
		}
		for _, k := range likenesses(&c.Request) {
			s := g.sums[k]
			if s == nil {
				s = &sum{}
				g.sums[k] = s
			}
			s.calls++
			s.asked += c.Request.Input
			s.input += c.Took.Input
			s.output += c.Took.Output
			s.ran += c.Ran
		}
	}
	return g
}

// likenesses are who a call is like, the nearest first.
func likenesses(r *governor.Request) []likeness {
	return []likeness{{r.Tenant, r.Model, r.Pool}, {"", r.Model, r.Pool}, {"", "", r.Pool}, {}}
}

// of is what a call takes, and how long. Where the record has none that ended it is the
// most, and a second for fifty tokens.
func (g *guess) of(r *governor.Request) (governor.Usage, time.Duration) {
	for _, k := range likenesses(r) {
		s := g.sums[k]
		if s == nil {
			continue
		}
		u := governor.Usage{Input: r.Input, Output: min(s.output/s.calls, r.Output)}
		if s.asked > 0 {
			u.Input = int64(float64(r.Input) * float64(s.input) / float64(s.asked))
		}
		return u, s.ran / time.Duration(s.calls)
	}
	return governor.Usage{Input: r.Input, Output: r.Output}, time.Duration(r.Output) * time.Second / 50
}
