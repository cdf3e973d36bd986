package lengths

import (
	"math"
	"math/rand/v2"
	"slices"
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
					if off := float64(b.ExpectOf(someKind, 16384))/mean - 1; n > before && math.Abs(off) > .2 {
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
	return b.ExpectOf(k, most)
}

// fewer worlds will do in a quick run, and under the race detector, which takes ten times as long.
func fewer(worlds int) int {
	if testkit.Race {
		return max(1, worlds/5)
	}
	return testkit.Rounds(max(1, worlds/3), worlds)
}

func always(l law) func(int) law { return func(int) law { return l } }
