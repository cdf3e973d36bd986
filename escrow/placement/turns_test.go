package placement

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// An upstream that was closed for a while gets its part of the calls afterwards, and not all that it has missed, however large the weights
// are that say the same.
func TestTurns_NoCatchingUp(t *testing.T) {
	for _, unit := range []int64{1, 200} {
		b := booksOf([]Spec{{Name: "small", Weight: unit}, {Name: "large", Weight: 3 * unit}})
		slot := uint32(0)
		begin := func(calls int) (small int) {
			for range calls {
				at, ok := b.Choose(t0, b.Mask(0), escrow.Cost{1, 1}, 0)
				if !ok {
					t.Fatal("no upstream has room")
				}
				b.Begin(t0, slot, at, escrow.Cost{1, 1})
				slot++
				if at == 0 {
					small++
				}
			}
			return small
		}
		b.List[0].Closed = t0.Add(time.Minute)
		begin(400)
		b.List[0].Closed = time.Time{}
		if small := begin(40); small < 10 || small > 11 {
			t.Errorf("with weights of %d and %d, the small one gets %d of 40 calls, want 10", unit, 3*unit, small)
		}
	}
}
