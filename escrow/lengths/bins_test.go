package lengths

import "testing"

// Every length is in the bin whose floor is the last not above it, and no bin is
// wider than an eighth of its floor.
//
// Seen to fail with: floorOf from 7 instead of perOctave; longest left out of binOf.
func TestBins(t *testing.T) {
	last := binOf(longest)
	for b := range last {
		lo := floorOf(b)
		next := floorOf(b + 1)
		if binOf(lo) != b || binOf(next-1) != b || binOf(next) != b+1 {
			t.Fatalf("bin %d is %d … %d, but these are in %d, %d, and the next in %d", b, lo, next-1, binOf(lo), binOf(next-1), binOf(next))
		}
		if next-lo > max(1, lo/perOctave) {
			t.Fatalf("bin %d is %d … %d, wider than an eighth", b, lo, next-1)
		}
	}
	for _, x := range []int64{longest, longest + 1, 1 << 40, 1<<63 - 1} {
		if binOf(x) != last {
			t.Errorf("%d is in bin %d, not in the last, %d", x, binOf(x), last)
		}
	}
	if got := binOf(-5); got != 0 {
		t.Errorf("-5 is in bin %d", got)
	}
}
