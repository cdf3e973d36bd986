package lengths

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

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
