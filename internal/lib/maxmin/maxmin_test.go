package maxmin

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// trial is weighted max-min by trial: it halves the range of levels until the shares at one of them
// come to the capacity.
func trial(capacity float64, claims []Claim) []float64 {
	floors := 0.0
	for _, c := range claims {
		floors += min(c.Floor, c.Demand)
	}
	scale := 1.0
	if floors > capacity {
		scale = capacity / floors
	}
	low := 0.0
	high := 1e9
	for range 200 {
		middle := (low + high) / 2
		if sum(sharesAt(middle, scale, claims)) < capacity {
			low = middle
		} else {
			high = middle
		}
	}
	return sharesAt(low, scale, claims)
}

// sharesAt are the shares if each unit of weight gets a level.
func sharesAt(level, scale float64, claims []Claim) []float64 {
	shares := make([]float64, len(claims))
	for i, c := range claims {
		shares[i] = min(c.Demand, max(min(c.Floor, c.Demand)*scale, c.Weight*level))
	}
	return shares
}

func sum(list []float64) (total float64) {
	for _, x := range list {
		total += x
	}
	return total
}

// drawClaims draws claims of which some demand nothing, and some are not bounded.
func drawClaims(t *rapid.T) []Claim {
	claims := make([]Claim, rapid.IntRange(0, 20).Draw(t, "claims"))
	for i := range claims {
		c := &claims[i]
		c.ID = i
		c.Weight = rapid.SampledFrom([]float64{1, 1, 2, 3, 1000, 9_000_000}).Draw(t, "weight")
		c.Demand = rapid.SampledFrom([]float64{0, 1, 1, 10, 1000, rapid.Float64Range(0, 2000).Draw(t, "any"), math.Inf(1)}).Draw(t, "demand")
		if rapid.Bool().Draw(t, "floored") {
			c.Floor = rapid.Float64Range(0, 1500).Draw(t, "floor")
		}
	}
	return claims
}

// byID are the shares in the order of the claims' numbers.
func byID(claims []Claim) []float64 {
	shares := make([]float64, len(claims))
	for _, c := range claims {
		shares[c.ID] = c.Share
	}
	return shares
}

// TestDivide_IsTrial: shares are those of a search by trial, nobody gets more than it demands, and all of the
// capacity is given, or all that is demanded.
func TestDivide_IsTrial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := drawClaims(t)
		capacity := rapid.Float64Range(0, 5000).Draw(t, "capacity")
		want := trial(capacity, claims)
		demand := 0.0
		for _, c := range claims {
			demand += c.Demand
		}
		Divide(capacity, claims)
		lost := 1e-9 * (1 + capacity)
		for _, c := range claims {
			if math.Abs(c.Share-want[c.ID]) > lost {
				t.Errorf("%+v of %v, by trial %v", c, capacity, want[c.ID])
			}
			if c.Share > c.Demand {
				t.Errorf("more than is demanded: %+v", c)
			}
		}
		if given, most := sum(byID(claims)), min(capacity, demand); math.Abs(given-most) > lost {
			t.Errorf("%v is given of %v", given, most)
		}
	})
}

// TestDivide_Order: neither the order of claims nor what Divide left in them before changes a bit of
// the shares.
func TestDivide_Order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := drawClaims(t)
		capacity := rapid.Float64Range(0, 5000).Draw(t, "capacity")
		shuffled := rapid.Permutation(claims).Draw(t, "shuffled")
		Divide(capacity, claims)
		Divide(rapid.Float64Range(0, 5000).Draw(t, "another"), shuffled)
		Divide(capacity, shuffled)
		if got, want := byID(shuffled), byID(claims); !slices.Equal(got, want) {
			t.Errorf("shares are %v, in another order %v", want, got)
		}
	})
}

// TestDivide_Rounding: weights whose differences are rounded below the weight of the last claim give
// it no more than there is.
func TestDivide_Rounding(t *testing.T) {
	claims := []Claim{
		{ID: 0, Weight: 1e17, Demand: 1},
		{ID: 1, Weight: 1, Demand: 100},
	}
	Divide(10, claims)
	if got, want := byID(claims), []float64{1, 9}; !slices.Equal(got, want) {
		t.Errorf("shares are %v, want %v", got, want)
	}
}

// drawWhole draws claims on whole units, and what they come to if units can be split.
func drawWhole(t *rapid.T, units int64, weights []int64) (claims []Whole, ideal []float64, demand int64) {
	claims = make([]Whole, rapid.IntRange(0, 20).Draw(t, "claims"))
	floats := make([]Claim, len(claims))
	for i := range claims {
		c := &claims[i]
		c.Demand = rapid.SampledFrom([]int64{0, 1, 2, 3, 100, 100_000}).Draw(t, "demand")
		c.Weight = rapid.SampledFrom(weights).Draw(t, "weight")
		floats[i] = Claim{ID: i, Weight: float64(c.Weight), Demand: float64(c.Demand)}
		demand += c.Demand
	}
	Divide(float64(units), floats)
	return claims, byID(floats), demand
}

var someUnits = rapid.SampledFrom([]int64{0, 1, 2, 10, 99, 100, 150_000})

// TestDivideWhole: shares are those of Divide but for the rounding, of half a unit for each claim; nobody gets
// more than it demands, and no unit is left as long as anybody lacks one.
func TestDivideWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := someUnits.Draw(t, "units")
		claims, ideal, demand := drawWhole(t, units, []int64{1, 1, 2, 3, 1000, 900_000})
		shares, _ := DivideWhole(units, claims)
		rounding := 0.5 * float64(1+len(claims))
		given := int64(0)
		for i, share := range shares {
			if share < 0 || share > claims[i].Demand || math.Abs(float64(share)-ideal[i]) > rounding {
				t.Errorf("%+v gets %d, of units that can be split %v", claims[i], share, ideal[i])
			}
			given += share
		}
		if given != min(units, demand) {
			t.Errorf("%d of %d units are given, and %d are demanded", given, units, demand)
		}
	})
}

// TestDivideWhole_Level: with equal weights it is the least share of those who lack something, or one more.
func TestDivideWhole_Level(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := someUnits.Draw(t, "units")
		claims, _, _ := drawWhole(t, units, []int64{rapid.Int64Range(1, 9).Draw(t, "weight of all")})
		shares, level := DivideWhole(units, claims)
		least := int64(-1)
		for i, share := range shares {
			if share < claims[i].Demand && (least < 0 || share < least) {
				least = share
			}
		}
		if level < least || level > least+1 || (level < 0) != (least < 0) {
			t.Errorf("the level is %d, and the least share %d: of %d units %+v get %v", level, least, units, claims, shares)
		}
	})
}

// TestDivideWhole_Remainder: what does not divide goes to those that demand most, and of equal ones to the last.
func TestDivideWhole_Remainder(t *testing.T) {
	for _, x := range []struct {
		units  int64
		claims []Whole
		shares []int64
		level  int64
	}{
		{1, []Whole{{5, 1}, {5, 1}}, []int64{0, 1}, 0},
		{10, []Whole{{50, 1}, {1, 1}, {50, 1}}, []int64{4, 1, 5}, 4},
		{3, []Whole{{8, 1}, {9, 1}}, []int64{1, 2}, 1},
		{3, []Whole{{9, 1}, {8, 1}}, []int64{2, 1}, 1},
		{9, []Whole{{20, 2}, {90, 1}}, []int64{6, 3}, 6},
		{9, []Whole{{4, 1}, {5, 1}, {0, 7}}, []int64{4, 5, 0}, -1},
		{0, []Whole{{5, 1}}, []int64{0}, 0},
	} {
		shares, level := DivideWhole(x.units, x.claims)
		if !slices.Equal(shares, x.shares) || level != x.level {
			t.Errorf("%+v: shares are %v, and the level %d", x, shares, level)
		}
	}
}
