package maxmin

import (
	"cmp"
	"math"
	"slices"
)

// Whole is a claim on a number of units that cannot be split.
type Whole struct{ Demand, Weight int64 }

// full is the level at which the demand is met.
func (w Whole) full() float64 { return float64(w.Demand) / float64(w.Weight) }

// DivideWhole returns the share of each claim in a number of units. All of them are given as long as
// anybody demands more; the remainder of the division goes to those that demand most.
//
// The level is the share of the first claim that does not get all that it demands, in the order of
// the levels at which demands are met; -1 if there is none. If all weights are equal, that is the
// least share of those who lack something, or one more because of the rounding.
//
// Each share is rounded, half down, and the rest is divided among the others. Products are rounded by
// float64() first, or some processors would do two steps at once and come to another result than a
// store whose script does the same. Demands and units are below 2⁵³, up to which floats are exact.
func DivideWhole(units int64, claims []Whole) (shares []int64, level int64) {
	order := make([]int, 0, len(claims))
	weights := int64(0)
	for i, c := range claims {
		if c.Demand > 0 {
			order = append(order, i)
			weights += c.Weight
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(claims[i].full(), claims[j].full()) })
	shares = make([]int64, len(claims))
	level = -1
	for _, i := range order {
		c := claims[i]
		part := float64(float64(units)*float64(c.Weight)) / float64(weights)
		shares[i] = min(c.Demand, int64(math.Ceil(part-0.5)))
		units -= shares[i]
		weights -= c.Weight
		if level < 0 && shares[i] < c.Demand {
			level = shares[i]
		}
	}
	return shares, level
}
