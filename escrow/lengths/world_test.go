package lengths

import (
	"math"
	"math/rand/v2"

	"github.com/llmgov/llmgov/internal/testkit"
)

// law is how long calls of one kind get.
type law struct {
	name string
	most int64
	draw func(r *rand.Rand) int64
}

func lognormal(median, sigma float64, most int64) law {
	return law{"lognormal", most, func(r *rand.Rand) int64 {
		return min(most, max(1, int64(math.Round(median*math.Exp(sigma*r.NormFloat64())))))
	}}
}

// either is one law or, with chance p, another.
func either(a law, p float64, b law) law {
	return law{"either", max(a.most, b.most), func(r *rand.Rand) int64 {
		if r.Float64() < p {
			return b.draw(r)
		}
		return a.draw(r)
	}}
}

func named(name string, l law) law {
	l.name = name
	return l
}

// laws are chats, long answers, code with its heavy tail, and calls that either
// answer in a word or write an essay.
var laws = []law{
	named("180 σ0.9 ≤4k", lognormal(180, .9, 4096)),
	named("450 σ1.0 ≤8k", lognormal(450, 1, 8192)),
	named("300 σ1.5 ≤16k", lognormal(300, 1.5, 16384)),
	named("60 or 2000 ≤8k", either(lognormal(60, .4, 8192), .3, lognormal(2000, .3, 8192))),
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 71)) }

// meanOf is a law's mean, from 200,000 draws.
func meanOf(l law) float64 {
	r := newRand(0)
	sum := 0.0
	const n = 200_000
	for range n {
		sum += float64(l.draw(r))
	}
	return sum / n
}

// world is calls of one kind, so many at once, each replaced when it ends. They
// produce 15 units a turn.
type world struct {
	book   *Book
	kind   Kind
	law    func(started int) law
	rand   *rand.Rand
	flight int
	cut    float64              // part of the calls that is cut off, somewhere
	ended  func(n int, x int64) // after each end
}

type running struct {
	Stream
	length, produced, cutAt int64
}

// run goes on until so many have ended.
func (w *world) run(ends int) {
	calls := make([]running, w.flight)
	started := 0
	done := 0
	start := func() running {
		l := w.law(started)
		started++
		c := running{Stream: w.book.Start(w.kind, l.most), length: l.draw(w.rand), cutAt: math.MaxInt64}
		if w.rand.Float64() < w.cut {
			c.cutAt = int64(w.rand.ExpFloat64() * 300)
		}
		return c
	}
	for i := range calls {
		calls[i] = start()
	}
	for done < ends {
		for i := range calls {
			c := &calls[i]
			c.produced += 15
			if c.produced < min(c.length, c.cutAt) {
				w.book.Reach(&c.Stream, c.produced)
				continue
			}
			got := min(c.length, c.cutAt)
			w.book.End(&c.Stream, got, c.length <= c.cutAt)
			done++
			if w.ended != nil {
				w.ended(done, got)
			}
			*c = start()
		}
	}
}

var someKind = Kind{Tenant: "acme", Tier: "gold", Model: "m"}

// expect asks without starting a call, by a table that is up to date.
func expect(b *Book, k Kind, most int64) int64 {
	i := b.find(keyOf(k, most), &b.latest)
	if i != 0 {
		b.nodes[i].news = b.nodes[i].due
	}
	return b.Mean(k, most).Predict()
}

// fewer worlds will do in a quick run, and under the race detector, which takes ten times as long.
func fewer(worlds int) int {
	if testkit.Race {
		return max(1, worlds/5)
	}
	return testkit.Rounds(max(1, worlds/3), worlds)
}

func always(l law) func(int) law { return func(int) law { return l } }
