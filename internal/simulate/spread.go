package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// Node is one process of several that share the pool by way of a store.
type Node struct {
	Name string
	// Delay is that of the way to the store, one way.
	Delay time.Duration
}

// Spread is by which nodes a tenant's requests come.
type Spread struct {
	// Parts are by node; nil for the same by each.
	Parts []float64
	// Period is how long the parts take to wander once around the nodes, 0 for ever;
	// Swing how far they go, 0 to 1; and Phase where they begin, in turns.
	Period       time.Duration
	Swing, Phase float64
}

// at is the parts of all nodes at a time; their sum is not 1.
func (s *Spread) at(at time.Duration, out []float64) {
	for i := range out {
		out[i] = 1
		if s.Parts != nil {
			out[i] = s.Parts[i]
		}
		if s.Period > 0 {
			turn := at.Seconds()/s.Period.Seconds() + s.Phase + float64(i)/float64(len(out))
			out[i] *= 1 + s.Swing*math.Cos(2*math.Pi*turn)
		}
	}
}

// pick draws an index by weight.
func pick(rng *rand.Rand, weights []float64) int {
	x := rng.Float64() * sum(weights)
	last := 0
	for i, w := range weights {
		if w <= 0 {
			continue
		}
		last = i
		if x < w {
			break
		}
		x -= w
	}
	return last
}
