// Package muldiv multiplies and divides whole numbers without loss: products have 128 bits, and a result beyond int64 becomes
// the largest.
package muldiv

import (
	"math"
	"math/bits"
)

// Floor is a·b/c rounded down. a, b ≥ 0 and c > 0.
func Floor(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return quotient(hi, lo, c)
}

// Ceil is a·b/c rounded up. a, b ≥ 0 and c > 0.
func Ceil(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	return quotient(hi+carry, lo, c)
}

func quotient(hi, lo uint64, c int64) int64 {
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
