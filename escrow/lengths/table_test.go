package lengths

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A table that takes the steps beyond a kind's own calls from its parent is the one that would come of all bins, to the
// last bit.
//
// Seen to fail with: top left as it is in advance; parent.most == n.most left out; top-1 in build; edge without the parent's; edge+1
// left out of risk; tail left as it is when a greater most comes, or 0 in a
// place that is used again.
func TestStepsOfTheParentAreOnesOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New(Config{
			Enough:   1,
			HalfLife: int64(rapid.IntRange(1, 30).Draw(t, "half-life")),
			MaxKinds: rapid.SampledFrom([]int{defaultKinds, 7}).Draw(t, "most kinds"), // with few, places are used again
		})
		kinds := []Kind{{"a", "x", "m"}, {"b", "x", "m"}, {"c", "y", "m"}}
		var calls []Stream
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			if len(calls) == 0 || rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				most := rapid.SampledFrom([]int64{4096, 4096, 4096, 3000, 0}).Draw(t, "most")
				calls = append(calls, b.Start(rapid.SampledFrom(kinds).Draw(t, "kind"), most))
			} else {
				i := rapid.IntRange(0, len(calls)-1).Draw(t, "call")
				length := rapid.Int64Range(0, calls[i].most).Draw(t, "length") / rapid.Int64Range(1, 100).Draw(t, "part")
				if rapid.Bool().Draw(t, "runs on") {
					b.Reach(&calls[i], length)
				} else {
					b.End(&calls[i], length, rapid.IntRange(0, 3).Draw(t, "whole") > 0)
					calls = slices.Delete(calls, i, i+1)
				}
			}
			for i := 1; i < len(b.nodes); i++ {
				sameByAllBins(t, b, int32(i))
			}
		}
	})
}

// sameByAllBins builds the tables of a node and those above it in both ways, and leaves them as they were.
func sameByAllBins(t *rapid.T, b *Book, i int32) {
	defer b.restore(b.keep(i))
	b.buildChain(i)
	short := b.steps(i)
	for at := i; at != 0; at = b.nodes[at].parent {
		b.nodes[at].top = binOf(int64(1) << b.nodes[at].key.most)
		b.nodes[at].reach(b.nodes[at].top)
	}
	b.buildChain(i)
	if all := b.steps(i); !slices.EqualFunc(short, all, sameStep) {
		t.Fatalf("of %v: %v\nby all bins: %v", b.nodes[i].key, short, all)
	}
}

// buildChain builds the tables of a node and of those above it, the highest first.
func (b *Book) buildChain(i int32) {
	if i != 0 {
		b.buildChain(b.nodes[i].parent)
		b.build(i)
	}
}

// steps are all steps of a node, with their risks.
func (b *Book) steps(i int32) []step {
	all := make([]step, binOf(int64(1)<<b.nodes[i].key.most)+1)
	for bin := range all {
		all[bin] = b.step(i, bin)
	}
	return all
}

// sameStep reports whether two steps are the same to the last bit, but for risks, which are sums.
func sameStep(a, b step) bool {
	near := math.Abs(a.risk-b.risk) < 1e-9
	a.risk = b.risk
	return near && a == b
}
