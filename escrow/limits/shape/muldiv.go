package shape

import (
	"math"
	"math/bits"
)

// mulDivFloor is a·b/c rounded down, at most the largest int64. a, b ≥ 0 and c > 0.
func mulDivFloor(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(quotient, math.MaxInt64))
}

// mulDivCeil is a·b/c rounded up, at most the largest int64. a, b ≥ 0 and c > 0.
func mulDivCeil(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	hi += carry
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(quotient, math.MaxInt64))
}
