package muldiv

import (
	"math"
	"math/big"
	"testing"
)

// FuzzRounds: results are those of unbounded integers, up to the largest int64.
func FuzzRounds(f *testing.F) {
	for _, s := range [][3]int64{{0, 0, 1}, {7, 3, 2}, {math.MaxInt64, math.MaxInt64, 1}, {math.MaxInt64, math.MaxInt64, math.MaxInt64}, {1, 1, math.MaxInt64}, {math.MaxInt64, 2, 2}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c int64) {
		if a < 0 || b < 0 || c <= 0 {
			t.Skip()
		}
		product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		floor, rest := new(big.Int).DivMod(product, big.NewInt(c), new(big.Int))
		ceil := new(big.Int).Set(floor)
		if rest.Sign() > 0 {
			ceil.Add(ceil, big.NewInt(1))
		}
		if got := Floor(a, b, c); got != capped(floor) {
			t.Errorf("%d·%d/%d rounded down is %d, not %d", a, b, c, got, floor)
		}
		if got := Ceil(a, b, c); got != capped(ceil) {
			t.Errorf("%d·%d/%d rounded up is %d, not %d", a, b, c, got, ceil)
		}
	})
}

func capped(x *big.Int) int64 {
	if !x.IsInt64() {
		return math.MaxInt64
	}
	return x.Int64()
}
