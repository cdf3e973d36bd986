package limits

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
)

// Whatever joins a line and leaves it: calls are in the order of their tags, those of
// one team in that of their priority and arrival and one behind the other, and the sums are right.
func TestLine_OrderAndSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l line
		ways := []Via{
			{Team: "x", Weight: escrow.WeightOne},
			{Team: "y", Weight: 3 * escrow.WeightOne},
			{Team: "z", Weight: 1},
		}
		arrived := map[*Place]int{}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch n := len(l.places); {
			case n == 0 || rapid.IntRange(0, 2).Draw(t, "what") == 0:
				w := &Place{cost: Cost{1, rapid.Int64Range(0, 100).Draw(t, "cost")}}
				arrived[w] = step
				c := Call{Via: rapid.SampledFrom(ways).Draw(t, "team"), Below: rapid.IntRange(0, 2).Draw(t, "below")}
				l.join(w, &c, whole/rapid.Int64Range(1, 1000).Draw(t, "limit"))
			case rapid.Bool().Draw(t, "served"):
				l.leave(l.places[0], true)
			default:
				l.leave(l.places[rapid.IntRange(0, n-1).Draw(t, "who")], false)
			}
			var sum Cost
			counts := map[string]int{}
			last := map[string]*Place{}
			for i, w := range l.places {
				sum = sum.Plus(w.cost, 1)
				counts[w.team]++
				if i > 0 && l.places[i-1].tag > w.tag {
					t.Fatalf("place %d has tag %d, the one before it %d", i, w.tag, l.places[i-1].tag)
				}
				if o := last[w.team]; o != nil && (o.below > w.below || o.below == w.below && arrived[o] > arrived[w] || w.tag != o.tag+o.part) {
					t.Fatalf("of one team came %d with tag %d + %d, and then %d with %d", arrived[o], o.tag, o.part, arrived[w], w.tag)
				}
				last[w.team] = w
			}
			if sum != l.cost {
				t.Fatalf("the calls cost %v, the line says %v", sum, l.cost)
			}
			for team, turn := range l.teams {
				if turn.calls != counts[team] {
					t.Fatalf("%d calls of %s wait, the line says %d", counts[team], team, turn.calls)
				}
				if w := last[team]; w != nil && turn.next != w.tag+w.part {
					t.Fatalf("the next of %s would start at %d, want %d", team, turn.next, w.tag+w.part)
				}
			}
		}
	})
}
