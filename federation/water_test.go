package federation

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
)

// halved is the water level found by halving what is left of the levels, sixty times.
func (a *Account) halved(capacity [axes]float64) float64 {
	fits := func(level float64) bool {
		for k := range capacity {
			sum := 0.0
			for _, name := range a.names() {
				if m := a.Members[name]; a.live(m) {
					sum += at(m.Curve, level, k)
				}
			}
			if a.limit(k) > 0 && sum > capacity[k] {
				return false
			}
		}
		return true
	}
	low := 0.0
	high := a.highest()
	if fits(high) {
		return -1
	}
	for range 60 {
		if mid := (low + high) / 2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// anyCurve draws one that rises, in places steeply and in others not at all.
func anyCurve(t *rapid.T) (curve []Point) {
	var p Point
	for range rapid.IntRange(0, curvePoints).Draw(t, "points") {
		p.Level += rapid.SampledFrom([]float64{0, 0.01, 1, 1, 10, 1e4}).Draw(t, "level")
		for k := range p.Use {
			p.Use[k] += rapid.SampledFrom([]float64{0, 0, 0.001, 1, 7, 1e4}).Draw(t, "use")
		}
		curve = append(curve, p)
	}
	return curve
}

// TestWater: wherever it was last, the water comes to stand where halving has it, and what is used
// there is all there is.
func TestWater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewAccount(DefaultRules(), 1_000_000, Options{})
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			m := &Member{Seen: a.Now, Limits: Amounts{1, 1}, Curve: anyCurve(t)}
			if rapid.IntRange(0, 9).Draw(t, "silent") == 0 {
				m.Seen -= 10_000
			}
			a.Members[fmt.Sprint(i)] = m
		}
		if rapid.Bool().Draw(t, "one axis") {
			for _, m := range a.Members {
				m.Limits[escrow.Requests] = 0
			}
		}
		all := a.uses(a.names(), a.highest()).use
		var capacity [axes]float64
		for k := range capacity {
			capacity[k] = all[k] * rapid.SampledFrom([]float64{0, 0.001, 0.3, 0.5, 0.9, 1, 1.1, rapid.Float64Range(0.001, 1).Draw(t, "part")}).Draw(t, "capacity")
		}
		a.Level = rapid.SampledFrom([]float64{-1, 0, 1, 1000, a.highest() / 2, a.highest(), rapid.Float64Range(0, 1e8).Draw(t, "level")}).Draw(t, "last")
		got := a.water(capacity)
		want := a.halved(capacity)
		if (got < 0) != (want < 0) || math.Abs(got-want) > 1e-9*a.highest() && !a.exhausts(got, capacity) {
			t.Fatalf("of %v the water stands at %v, by halving at %v; there uses are %v and %v", capacity, got, want,
				a.uses(a.names(), got).use, a.uses(a.names(), want).use)
		}
	})
}

// exhausts reports whether all there is is used at a level, but for what floats lose: where curves are
// level or steep, that is so at many, or at none.
func (a *Account) exhausts(level float64, capacity [axes]float64) bool {
	uses, all, exhausted := a.uses(a.names(), level).use, a.uses(a.names(), a.highest()).use, false
	for k, use := range uses {
		lost := 1e-9 * all[k]
		if use > capacity[k]+lost && a.limit(k) > 0 {
			return false
		}
		exhausted = exhausted || use >= capacity[k]-lost
	}
	return exhausted
}
