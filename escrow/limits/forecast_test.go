package limits

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// A call that does not fit fits when the forecast says so, and no earlier, if nobody else comes.
func TestForecast_IsWhenThereIsRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		s := New(false, nil)
		var limits Limits
		for k := range limits.Minute {
			limits.Minute[k] = rapid.SampledFrom([]int64{0, 5, 30, 100}).Draw(t, "limit")
		}
		early := time.Duration(1)
		for k, kind := range rapid.SliceOfN(rapid.IntRange(0, int(shape.GCRA)), 0, 2).Draw(t, "windows") {
			rule := shape.Rule{Kind: shape.Kind(kind), Amount: rapid.SampledFrom([]int64{5, 60}).Draw(t, "amount"), Per: 30 * time.Second}
			limits.Windows = append(limits.Windows, Window{Axis(k), rule})
			if rule.Kind.Bucket() {
				early = 2 * rule.Per / 1e6 // it counts in ticks
			}
		}
		s.Configure(now, limits, 10)
		draw := func() (c Call) {
			for k := range c.Cost {
				c.Cost[k] = rapid.Int64Range(0, 40).Draw(t, "cost")
			}
			c.Via = Via{Team: "x", Weight: escrow.WeightOne}
			return c
		}
		for range rapid.IntRange(0, 20).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 9_000).Draw(t, "ms")) * time.Millisecond)
			s.Advance(now)
			s.Offer(draw(), new(Hold))
		}
		s.Advance(now)
		call := draw()
		f := s.Forecast(call)
		wait := time.Duration(0)
		for _, w := range f.Waits {
			wait = max(wait, w)
		}
		if (f.Answer.Verdict == Admitted) != (wait == 0) {
			t.Fatalf("the verdict is %d, and the wait %v", f.Answer.Verdict, wait)
		}
		if wait == 0 {
			return
		}
		s.Advance(now.Add(wait - early))
		if _, fits := s.Fits(f.Answer.Cost); fits {
			t.Fatalf("%v fits before %v have passed", call.Cost, wait)
		}
		s.Advance(now.Add(wait))
		if lacks, fits := s.Fits(f.Answer.Cost); !fits {
			t.Fatalf("after %v %v does not fit: it lacks %v", wait, call.Cost, lacks)
		}
	})
}
