package lengths

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// After 2000 completions the expected length is the law's mean, within 3 % on
// average over worlds. One world's error is that of a sample's mean.
//
// Seen to fail with: a bin's floor instead of the sum of lengths; half-life 693 → 20.
func TestLawsAreLearned(t *testing.T) {
	worlds := fewer(40)
	most := .03
	if testkit.Race {
		most = .05 // of so few worlds
	}
	for _, l := range laws {
		mean := meanOf(l)
		for _, flight := range []int{1, 30} {
			bias := 0.0
			square := 0.0
			for seed := range worlds {
				b := New(Config{})
				w := world{book: b, kind: someKind, law: always(l), rand: newRand(uint64(seed)), flight: flight}
				w.run(2000)
				off := float64(expect(b, someKind, l.most))/mean - 1
				bias += off / float64(worlds)
				square += off * off / float64(worlds)
			}
			t.Logf("%-15s mean %4.0f, %3d at once: off by %+.1f %% on average, %.1f %% in one world", l.name, mean, flight, 100*bias, 100*math.Sqrt(square))
			if math.Abs(bias) > most {
				t.Errorf("%s, %d at once: expected %+.1f %% of the mean %.0f", l.name, flight, 100*bias, mean)
			}
		}
	}
}

// Where far more calls run than memory is long, estimates stay true, and nothing
// is doubted that did not change.
//
// Seen to fail with: max(HalfLife, running) → HalfLife; w in complete → 1; here left
// out in build.
func TestManyAtOnce(t *testing.T) {
	for _, l := range laws[:fewer(len(laws))] {
		mean := meanOf(l)
		b := New(Config{})
		w := world{book: b, kind: someKind, law: always(l), rand: newRand(5), flight: 2000}
		w.run(50_000)
		off := float64(expect(b, someKind, l.most))/mean - 1
		t.Logf("%-15s off by %+.1f %%, %d doubts", l.name, 100*off, b.Stats().Doubts)
		if math.Abs(off) > .05 || b.Stats().Doubts > 6 {
			t.Errorf("%s: off by %+.1f %%, doubted %d times", l.name, 100*off, b.Stats().Doubts)
		}
	}
}

// At the start, with many calls running, short ones end first. Who learns from
// those alone expects too little; counting those that run, too much if anything.
//
// Seen to fail with: no advance in Reach, so that calls count only when they end.
func TestStartIsNotBiasedToShortCalls(t *testing.T) {
	worlds := fewer(30)
	for _, l := range laws {
		mean := meanOf(l)
		for _, after := range []int{20, 50, 100, 200} {
			ours := 0.0
			naive := 0.0
			for seed := range worlds {
				b := New(Config{})
				sum := 0.0
				w := world{book: b, kind: someKind, law: always(l), rand: newRand(uint64(seed)), flight: 300}
				w.ended = func(n int, x int64) {
					if n <= after {
						sum += float64(x)
					}
					if n == after {
						ours += float64(expect(b, someKind, l.most)) / mean / float64(worlds)
					}
				}
				w.run(after)
				naive += sum / float64(after) / mean / float64(worlds)
			}
			t.Logf("%-15s after %3d of 300: expected %.2f of the mean, ended-only %.2f", l.name, after, ours, naive)
			if ours < .97 {
				t.Errorf("%s: after %d completions only %.2f of the mean is expected", l.name, after, ours)
			}
			if after <= 50 && naive > .6 {
				t.Errorf("%s: what ended has %.2f of the mean: the world tests nothing", l.name, naive)
			}
		}
	}
}

// Calls that are cut off do not teach that calls are short.
//
// Seen to fail with: cut-off ends counted as whole.
func TestCutOffCalls(t *testing.T) {
	worlds := fewer(20)
	for _, l := range laws {
		mean := meanOf(l)
		ours := 0.0
		naive := 0.0
		for seed := range worlds {
			b := New(Config{})
			sum := 0.0
			w := world{book: b, kind: someKind, law: always(l), rand: newRand(uint64(seed)), flight: 30, cut: .5}
			w.ended = func(_ int, x int64) { sum += float64(x) }
			w.run(4000)
			ours += float64(expect(b, someKind, l.most)) / mean / float64(worlds)
			naive += sum / 4000 / mean / float64(worlds)
		}
		t.Logf("%-15s half cut off: expected %.3f of the mean; what was produced, %.2f", l.name, ours, naive)
		if math.Abs(ours-1) > .04 || naive > .85 {
			t.Errorf("%s: expected %.3f of the mean; produced %.2f", l.name, ours, naive)
		}
	}
}

// Lengths that change by a factor are followed: how many completions until what
// is expected stays within 20 %.
//
// Seen to fail with: surprised always false; doubtFades 3 → 1; expected not
// counted in advance.
func TestDrift(t *testing.T) {
	const before = 3000
	worlds := fewer(15)
	for _, c := range []struct {
		from, to float64
		within   int // completions, in the middle world
	}{{180, 540, 300}, {180, 1800, 250}, {540, 180, 450}, {1800, 180, 800}} {
		a := lognormal(c.from, .9, 16384)
		z := lognormal(c.to, .9, 16384)
		mean := meanOf(z)
		for _, flight := range []int{1, 30} {
			var took []int
			for seed := range worlds {
				b := New(Config{})
				last := 0
				w := world{book: b, kind: someKind, rand: newRand(uint64(seed)), flight: flight}
				w.law = func(started int) law {
					if started < before {
						return a
					}
					return z
				}
				w.ended = func(n int, _ int64) {
					if off := float64(b.Mean(someKind, 16384).Predict())/mean - 1; n > before && math.Abs(off) > .2 {
						last = n - before
					}
				}
				w.run(2 * before)
				took = append(took, last+1)
			}
			slices.Sort(took)
			t.Logf("%4.0f → %4.0f, %2d at once: within 20 %% after %d completions (%d … %d)", c.from, c.to, flight, took[worlds/2], took[0], took[worlds-1])
			if took[worlds/2] > c.within {
				t.Errorf("%.0f → %.0f takes %d completions, want %d", c.from, c.to, took[worlds/2], c.within)
			}
		}
	}
}

// A new tenant is expected to be like its tier, and soon like itself.
//
// Seen to fail with: parent ignored in build; kin 1 → 30.
func TestNewTenantLearnsFromItsTier(t *testing.T) {
	worlds := fewer(40)
	r := newRand(3)
	tier := lognormal(300, .9, 8192)
	own := lognormal(900, .9, 8192)
	tierMean := meanOf(tier)
	ownMean := meanOf(own)
	at := map[int]float64{}
	for range worlds {
		b := New(Config{})
		for i := range 2000 {
			s := b.Start(Kind{string(rune('a' + i%10)), "gold", "m"}, 8192)
			b.End(&s, tier.draw(r), true)
		}
		for i := range 201 {
			s := b.Start(Kind{"new", "gold", "m"}, 8192)
			at[i] += float64(b.Expect(&s)) / float64(worlds)
			b.End(&s, own.draw(r), true)
		}
	}
	t.Logf("the tier's mean %.0f, own %.0f; expected at first %.0f, after 10: %.0f, 30: %.0f, 100: %.0f", tierMean, ownMean, at[0], at[10], at[30], at[100])
	if math.Abs(at[0]/tierMean-1) > .05 {
		t.Errorf("at first %.0f is expected, the tier has %.0f", at[0], tierMean)
	}
	if math.Abs(at[30]/ownMean-1) > .15 || math.Abs(at[200]/ownMean-1) > .1 {
		t.Errorf("own mean is %.0f; expected after 30 %.0f, after 200 %.0f", ownMean, at[30], at[200])
	}
}

// hinted is a mixture of who follows an outside prediction and who learns.
func hinted(most int64) *Hedge {
	return NewHedge(0, &Follow{}, NewPinball(.5, most))
}

// Every learner on every law, after 1000 calls, one at a time: what it predicts of
// the mean, how many calls that covers, and what it books too much and too little,
// in parts of what the calls took.
func TestCompareLearners(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-15s %-24s %9s %8s %6s %6s", "law", "learner", "predicted", "covered", "over", "under")
	for _, l := range laws {
		b := New(Config{})
		for _, p := range []struct {
			name string
			Predictor
		}{
			{"most", &Follow{l.most}},
			{"histogram, mean", b.Mean(Kind{Tenant: "1"}, l.most)},
			{"histogram, p95", b.Part(Kind{Tenant: "2", Model: "2"}, l.most, .95)},
			{"pinball, p95", NewPinball(.95, l.most)},
			{"hedge, hint off by 2×", hinted(l.most)},
			{"hedge, hint of noise", hinted(l.most)},
		} {
			r := newRand(4)
			var predicted, actual, over, under, covered float64
			for i := range 5000 {
				x := l.draw(r)
				if h, ok := p.Predictor.(*Hedge); ok {
					h.Hint(hint(p.name, r, x, l.most))
				}
				got := p.Predict()
				p.Observe(x)
				if got < 0 || got > l.most {
					t.Fatalf("%s predicts %d of at most %d", p.name, got, l.most)
				}
				if i < 1000 {
					continue
				}
				predicted += float64(got)
				actual += float64(x)
				over += float64(max(got-x, 0))
				under += float64(max(x-got, 0))
				if x <= got {
					covered++
				}
			}
			fmt.Fprintf(&table, "\n%-15s %-24s %9.2f %8.3f %6.2f %6.2f", l.name, p.name, predicted/actual, covered/4000, over/actual, under/actual)
			switch {
			case p.name == "histogram, mean" && math.Abs(predicted/actual-1) > .08,
				strings.HasSuffix(p.name, "p95") && math.Abs(covered/4000-.95) > .03:
				t.Errorf("%s on %s: predicts %.2f of the mean, covers %.3f", p.name, l.name, predicted/actual, covered/4000)
			}
		}
	}
	t.Log(table.String())
}

// hint is what somebody outside predicts of a call.
func hint(name string, r *rand.Rand, actual, most int64) int64 {
	if strings.HasSuffix(name, "noise") {
		return r.Int64N(most)
	}
	return min(most, int64(float64(actual)*math.Exp(math.Ln2*(2*r.Float64()-1))))
}

// Pinball finds its quantile and follows it when it moves.
//
// Seen to fail with: q and 1-q exchanged; leastStep 0.
func TestPinball(t *testing.T) {
	for _, q := range []float64{.5, .8, .95} {
		p := NewPinball(q, 8192)
		r := newRand(1)
		over := 0
		if p.Predict() != 8192 {
			t.Errorf("begins at %d", p.Predict())
		}
		for range 50_000 {
			p.Observe(lognormal(2000, .8, 8192).draw(r))
		}
		for i := range 6000 {
			x := lognormal(200, .8, 8192).draw(r)
			if i >= 2000 && x > p.Predict() {
				over++
			}
			p.Observe(x)
		}
		if got := 1 - float64(over)/4000; math.Abs(got-q) > .03 {
			t.Errorf("quantile %.2f covers %.3f", q, got)
		}
	}
	p := NewPinball(.9, 100)
	for range 100 {
		p.Observe(1000)
	}
	if p.Predict() != 100 {
		t.Errorf("predicts %d of at most 100", p.Predict())
	}
}

// Hedge comes to play who is right: the outside prediction if it is good, else
// who learns.
//
// Seen to fail with: losses not counted; the sign of eta turned.
func TestHedge(t *testing.T) {
	for _, good := range []bool{true, false} {
		r := newRand(2)
		l := laws[0]
		learner := NewPinball(.5, l.most)
		h := NewHedge(0, &Follow{}, learner)
		mixed := 0.0
		best := 0.0
		for i := range 4000 {
			x := l.draw(r)
			told := x
			if !good {
				told = r.Int64N(l.most)
			}
			h.Hint(told)
			if i >= 3000 {
				want := told
				if !good {
					want = learner.Predict()
				}
				mixed += math.Abs(float64(h.Predict() - x))
				best += math.Abs(float64(want - x))
			}
			h.Observe(x)
		}
		if (mixed-best)/1000 > 3 {
			t.Errorf("good hints: %v; off by %.0f a call, the better expert by %.0f", good, mixed/1000, best/1000)
		}
	}
	if got := NewHedge(0).Predict(); got != 0 {
		t.Errorf("nobody predicts %d", got)
	}
}

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
