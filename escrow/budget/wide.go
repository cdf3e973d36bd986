package budget

import "math/bits"

// wide is an integer ≥ 0 of 128 bits. Sums of weight × time need it, and so do
// products of these with a limit. Callers know that results fit, for the
// largest is MaxLimit × MaxWeights × the µs of a month: 2.4·10³⁸ of 3.4·10³⁸.
type wide struct{ hi, lo uint64 }

// mul is a·b, for a, b ≥ 0.
func mul(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{hi, lo}
}

func (x wide) plus(y wide) wide {
	lo, carry := bits.Add64(x.lo, y.lo, 0)
	return wide{x.hi + y.hi + carry, lo}
}

func (x wide) minus(y wide) wide {
	lo, borrow := bits.Sub64(x.lo, y.lo, 0)
	return wide{x.hi - y.hi - borrow, lo}
}

func (x wide) times(m int64) wide {
	hi, lo := bits.Mul64(x.lo, uint64(m))
	return wide{hi + x.hi*uint64(m), lo}
}

// over is x/d rounded down, d > 0. Dividing by d and then by e is exactly
// dividing by d·e, rounded once; the same is true of overUp.
func (x wide) over(d int64) wide {
	q, rest := bits.Div64(0, x.hi, uint64(d))
	lo, _ := bits.Div64(rest, x.lo, uint64(d))
	return wide{q, lo}
}

// overUp is x/d rounded up.
func (x wide) overUp(d int64) wide { return x.plus(wide{lo: uint64(d - 1)}).over(d) }

func (x wide) less(y wide) bool { return x.hi < y.hi || x.hi == y.hi && x.lo < y.lo }

// int is x as an int64, which the caller knows it to be.
func (x wide) int() int64 { return int64(x.lo) }
