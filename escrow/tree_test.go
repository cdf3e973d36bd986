package escrow

import (
	"math"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/maxmin"
	"github.com/llmgov/llmgov/internal/testkit"
)

// claim is a node of a random tree, for the fluid oracle.
type claim struct {
	weight   float64
	demand   float64 // of a leaf: tokens a second; of others the sum
	children []*claim
	src      *source
}

func (c *claim) sum() float64 {
	for _, k := range c.children {
		c.demand += k.sum()
	}
	return c.demand
}

// pour shares out a rate by weighted max-min, level by level.
func (c *claim) pour(rate float64, give func(*source, float64)) {
	if c.src != nil {
		give(c.src, rate)
		return
	}
	list := make([]maxmin.Claim, len(c.children))
	for i, k := range c.children {
		list[i] = maxmin.Claim{ID: i, Weight: k.weight, Demand: k.demand}
	}
	maxmin.Divide(rate, list)
	for _, x := range list {
		c.children[x.ID].pour(x.Share, give)
	}
}

// 300 random trees of three levels, some leaves idle, some with less demand than
// their share, some backlogged: each gets what the fluid server gives, give or take
// one call a level.
//
// Catches: no charge above the leaf; tags moved by cost instead of cost/weight; virtual time
// that moves at the root only.
func TestI6_TreesAgainstTheFluidServer(t *testing.T) {
	const (
		limit = 600_000
		most  = 1000 // the largest call
		long  = 60 * time.Second
	)
	worst := 0.0
	for seed := range uint64(testkit.Rounds(12, 300)) {
		w := newSim(t, seed, Config{TPM: limit})
		w.dt = 20 * time.Millisecond
		r := w.rng
		var grow func(parent NodeID, depth int) *claim
		grow = func(parent NodeID, depth int) *claim {
			n := Node{Weight: Weight(1+r.IntN(8)) * WeightOne}
			c := &claim{weight: float64(n.Weight)}
			if depth == 3 || depth > 1 && r.IntN(4) == 0 {
				c.src = w.leaf(parent, n, 1+r.Int64N(most))
				switch r.IntN(3) {
				case 0:
				case 1:
					c.demand = r.Float64() * limit / 60 / 4
					c.src.rate = c.demand / float64(c.src.cost)
				default:
					c.demand = math.Inf(1)
					c.src.keep = 2 + most/int(c.src.cost)
				}
				return c
			}
			id := w.p.Add(parent, n)
			for range 2 + r.IntN(3) {
				c.children = append(c.children, grow(id, depth+1))
			}
			return c
		}
		root := &claim{}
		for range 2 + r.IntN(3) {
			root.children = append(root.children, grow(Root, 1))
		}
		root.sum()
		if !math.IsInf(root.demand, 1) {
			continue // nobody is backlogged, nobody waits
		}
		w.run(10 * time.Second)
		w.reset()
		w.run(long)
		total := 0.0
		for _, s := range w.sources {
			total += float64(s.got)
		}
		root.pour(total/long.Seconds(), func(s *source, rate float64) {
			want := rate * long.Seconds()
			off := math.Abs(float64(s.got)-want) / most
			worst = max(worst, off)
			if off > 3 {
				t.Errorf("I6: seed %d: leaf %d got %d tokens, %.0f from the fluid server", seed, s.leaf, s.got, want)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("I6: at worst %.2f of the largest call off", worst)
}
