package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// Streams of random numbers. Each leaf has one for its requests and one
// for its behaviour between them, so that no decision of the admission changes the
// requests of others, or of an open load at all.
const (
	streamArrivals = iota
	streamManners
	streamEvents
	streamPhases
	streamPlaces
	streamNetwork
	streamWhole
)

func randomStream(seed uint64, leaf, purpose int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(leaf)<<8|uint64(purpose)))
}

// between draws from the range uniformly.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return scenario.Span{From: from, To: to}.Draw(rng)
}

// sample is one request before it is made.
type sample struct {
	class      int // -1 without classes
	input      int64
	output     int64
	maxOutput  int64 // the maximum that its caller declares
	run        time.Duration
	firstToken time.Duration
	speed      float64 // of output, tokens a second; 0 for all at once
}

func drawSample(w *scenario.Work, rng *rand.Rand, factor float64) sample {
	if len(w.Classes) > 0 {
		return drawOfClass(w, rng, factor)
	}
	s := sample{class: -1, output: int64(math.Round(w.Cost.Draw(rng, factor)))}
	s.maxOutput = s.output
	if !math.IsInf(w.Cost.Max, 1) {
		s.maxOutput = int64(w.Cost.Max)
	}
	if !w.Service.Zero() {
		run := w.Service.Draw(rng, 1)
		s.run = time.Duration(run * float64(time.Second))
		s.speed = float64(s.output) / run
	}
	return s
}

func drawOfClass(w *scenario.Work, rng *rand.Rand, factor float64) sample {
	k := 0
	for x := rng.Float64(); k < len(w.Classes)-1 && x >= w.Classes[k].Share; k++ {
		x -= w.Classes[k].Share
	}
	c := &w.Classes[k]
	s := sample{class: k, maxOutput: int64(c.Max)}
	if !c.Input.Zero() {
		s.input = int64(math.Round(c.Input.Draw(rng, 1)))
	}
	out := c.Median * factor * math.Exp(c.Sigma*rng.NormFloat64())
	s.output = int64(math.Round(min(max(out, 1), c.Max)))
	s.firstToken = c.FirstToken.Draw(rng)
	s.speed = c.TokensPerSecond
	if c.SpeedSigma > 0 {
		s.speed *= math.Exp(c.SpeedSigma * rng.NormFloat64())
	}
	s.stream()
	return s
}

// stream sets how long the output flows.
func (s *sample) stream() {
	s.run = s.firstToken + time.Duration(float64(s.output)/s.speed*float64(time.Second))
}

// replay gives the sample the tokens of a call that was made once. Its caller knew their number, unless its class declares more.
func (s *sample) replay(c *scenario.Call, factor float64) {
	s.input = c.Input
	s.output = int64(math.Round(float64(c.Output) * factor))
	switch {
	case s.class >= 0:
		s.maxOutput = max(s.maxOutput, s.output)
		s.stream()
		return
	case s.run > 0:
		s.speed = float64(s.output) / s.run.Seconds()
	}
	s.maxOutput = s.output
}

// averages are the cost and duration of a work's requests, by trial, because
// the cuts at both ends leave no simple formula.
type averages struct{ tokens, input, run float64 }

func averagesOf(w *scenario.Work) (a averages) {
	eachTrial(w, func(s *sample) {
		a.tokens += float64(s.input+s.output) / trials
		a.input += float64(s.input) / trials
		a.run += s.run.Seconds() / trials
	})
	return a
}

// trials are how many requests a work is tried with.
const trials = 20_000

// eachTrial calls f for requests of a work, always the same.
func eachTrial(w *scenario.Work, f func(*sample)) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range trials {
		s := drawSample(w, rng, 1)
		f(&s)
	}
}

// pick draws an index by weight.
func pick(rng *rand.Rand, weights []float64) int {
	x := rng.Float64() * sum(weights)
	last := 0
	for i, w := range weights {
		if w <= 0 {
			continue
		}
		last = i
		if x < w {
			break
		}
		x -= w
	}
	return last
}
