package federation

import "math"

// floorDiv is a/b rounded down, of a b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ceilDiv is a/b rounded up, of a b > 0.
func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

// whole is a rate, rounded down, and never negative.
func whole(x float64) int64 { return max(0, int64(math.Floor(x))) }
