package maxmin

import (
	"cmp"
	"slices"
)

// Claim is the claim of one party on a capacity.
type Claim struct {
	// ID is the caller's own number for the claim. It also breaks ties, because sums of floats
	// depend on their order.
	ID int
	// Weight is above 0. Whole numbers are best, because their sums and differences are exact.
	Weight float64
	// Floor is the part of the demand that comes before all weights.
	Floor float64
	// Demand is the most that the claim can use. It may be infinite.
	Demand float64

	// Share is the part of the capacity that the claim gets. Divide sets it.
	Share float64

	level  float64 // at which the demand is met
	pinned bool    // to the floor, because the weight comes to less
}

// Divide sets the share of each claim in a capacity, which is finite. It sorts the claims by the
// level at which their demands are met.
//
// A floor replaces a smaller share, and adds nothing to a larger one. If the capacity is less than
// all floors, it is divided in proportion to them, and claims without a floor get nothing.
func Divide(capacity float64, claims []Claim) {
	for i := range claims {
		c := &claims[i]
		c.Floor = min(c.Floor, c.Demand)
		c.level = c.Demand / c.Weight
		c.pinned = false
	}
	slices.SortFunc(claims, func(a, b Claim) int {
		if byLevel := cmp.Compare(a.level, b.level); byLevel != 0 {
			return byLevel
		}
		return a.ID - b.ID
	})
	rest := pinFloors(capacity, claims)
	weights := unpinnedWeight(claims)
	for i := range claims {
		c := &claims[i]
		if c.pinned {
			continue
		}
		part := rest * c.Weight / max(weights, c.Weight) // sums of weights may be rounded below the last one
		c.Share = min(c.Demand, part)
		rest = max(0, rest-c.Share)
		weights -= c.Weight
	}
}

// pinFloors gives those claims their floors whose weights come to less, and returns the capacity
// that is left for the others. Each claim that is pinned lowers the level of the others, so it
// looks again until no floor is above its claim's share.
func pinFloors(capacity float64, claims []Claim) float64 {
	floors := 0.0
	for i := range claims {
		floors += claims[i].Floor
	}
	if floors == 0 {
		return capacity
	}
	scale := min(1, capacity/floors)
	left := capacity
	for again := true; again; {
		again = false
		level, scarce := levelOf(left, claims)
		for i := range claims {
			c := &claims[i]
			if c.pinned || c.Floor <= 0 {
				continue
			}
			if scarce && c.Floor > level*c.Weight {
				c.pinned = true
				c.Share = c.Floor * scale
				left -= c.Share
				again = true
			}
		}
	}
	return max(0, left)
}

// levelOf is the amount for each unit of weight that claims without a pin get of a capacity. It
// is not scarce if they all get what they demand.
func levelOf(capacity float64, claims []Claim) (level float64, scarce bool) {
	weights := unpinnedWeight(claims)
	for i := range claims {
		c := &claims[i]
		if c.pinned {
			continue
		}
		if c.level > capacity/weights {
			return capacity / weights, true
		}
		capacity -= c.Demand
		weights -= c.Weight
	}
	return 0, false
}

// unpinnedWeight is the weight of all claims that are not pinned to their floors.
func unpinnedWeight(claims []Claim) float64 {
	weights := 0.0
	for i := range claims {
		if !claims[i].pinned {
			weights += claims[i].Weight
		}
	}
	return weights
}
