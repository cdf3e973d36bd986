package lengths

import "math/bits"

// perOctave is how many bins there are between a length and its double. With 8
// a bin is between 6 and 12.5 % wide, and its edges are whole numbers found by
// shifts, without a logarithm (as in HdrHistogram).
const perOctave = 8

// longest is where bins stop growing in number: longer calls share the last
// one. 2²⁴ is more than any model's context in tokens, and 4.6 hours in
// milliseconds. A kind has only the bins below its own most.
const longest = int64(1) << 24

// binOf is the bin of a length; 0 to 7 have a bin each.
func binOf(length int64) int {
	if length < perOctave {
		return int(max(length, 0))
	}
	length = min(length, longest)
	shift := bits.Len64(uint64(length)) - bits.Len64(perOctave)
	return shift*perOctave + int(length>>shift)
}

// floorOf is the least length in bin b.
func floorOf(b int) int64 {
	if b < perOctave {
		return int64(b)
	}
	return int64(perOctave+b%perOctave) << (b/perOctave - 1)
}
