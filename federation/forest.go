package federation

import (
	"cmp"
	"slices"
)

// forest is a pool's tree with the demand of all nodes at each of its claims. It computes how
// weighted max-min over all processes would share the pool, and which part of that is this one's.
// With the shares that follow from it, local fair queueing gives each leaf what flat weighted
// max-min over all regions would.
type forest struct {
	branches []branch // by index in the tree
	roots    []int
}

type branch struct {
	weight float64
	leaf   bool
	kids   []int // by how soon their demand is met
	// own is what is asked for here, all what is everywhere, use what own comes to in units.
	own, all float64
	use      [axes]float64
	// As of the last flood: what the branch gets everywhere, and here.
	gets, here float64
}

// newForest is the forest of a tree, parents first.
func newForest(leaves map[string]*demand, tree []Claim) *forest {
	f := &forest{branches: make([]branch, len(tree))}
	for i, c := range tree {
		b := &f.branches[i]
		b.weight = float64(c.Weight)
		b.leaf = c.Leaf
		if c.Parent < 0 {
			f.roots = append(f.roots, i)
		} else {
			f.branches[c.Parent].kids = append(f.branches[c.Parent].kids, i)
		}
		if d := leaves[c.Path]; d != nil && c.Leaf {
			b.own = d.own
			b.all = d.own + d.others
			b.use = d.with
		}
	}
	for i := len(tree) - 1; i >= 0; i-- {
		b := &f.branches[i]
		slices.SortFunc(b.kids, func(x, y int) int { return cmp.Compare(f.branches[x].fullAt(), f.branches[y].fullAt()) })
		if up := tree[i].Parent; up >= 0 {
			f.branches[up].own += b.own
			f.branches[up].all += b.all
		}
	}
	return f
}

// fullAt is the level at which a branch has all it asks for.
func (b *branch) fullAt() float64 { return b.all / b.weight }

// share is which part of the claim counts here, in millionths.
func (b *branch) share() int64 {
	if b.own >= b.all || b.gets <= 0 {
		return wholeShare
	}
	return min(max(int64(wholeShare*(b.here/b.gets)), leastShare), wholeShare)
}

// flood lets the water rise to a level below the pool.
func (f *forest) flood(level float64) {
	for _, i := range f.roots {
		b := &f.branches[i]
		f.give(i, min(b.all, b.weight*level))
	}
}

// give shares out a branch's part below it: weighted max-min.
func (f *forest) give(i int, amount float64) {
	b := &f.branches[i]
	b.gets = amount
	if b.leaf {
		b.here = 0
		if b.all > 0 {
			b.here = amount * (b.own / b.all)
		}
		return
	}
	b.here = 0
	weights := 0.0
	for _, k := range b.kids {
		weights += f.branches[k].weight
	}
	for _, k := range b.kids {
		kid := &f.branches[k]
		part := amount
		if kid.weight < weights {
			part = amount * (kid.weight / weights)
		}
		part = min(part, kid.all)
		f.give(k, part)
		b.here += kid.here
		amount = max(0, amount-part)
		weights = weights - kid.weight
	}
}

// uses is the part of a branch here, in units.
func (f *forest) uses(i int, sum *[axes]float64) {
	b := &f.branches[i]
	if b.leaf && b.own > 0 {
		for k := range sum {
			sum[k] += b.use[k] * (b.here / b.own)
		}
	}
	for _, k := range b.kids {
		f.uses(k, sum)
	}
}

// bends are the amounts of a branch at which a leaf below it has all that it asks for:
// between two of them all that is below gets more evenly.
func (f *forest) bends(i int) []float64 {
	b := &f.branches[i]
	if b.leaf {
		return []float64{b.all}
	}
	var levels []float64
	rising := 0.0 // weight of the children that do not have all they ask for
	for _, k := range b.kids {
		kid := &f.branches[k]
		rising += kid.weight
		for _, amount := range f.bends(k) {
			levels = append(levels, amount/kid.weight)
		}
	}
	levels = thin(levels)
	full := 0.0
	next := 0
	for j, level := range levels {
		for ; next < len(b.kids) && f.branches[b.kids[next]].fullAt() <= level; next++ {
			kid := &f.branches[b.kids[next]]
			full = full + kid.all
			rising = rising - kid.weight
		}
		levels[j] = full + rising*level
	}
	return levels
}

// thin puts levels in order; of more than a curve has points it leaves evenly chosen ones
// and the last.
func thin(levels []float64) []float64 {
	slices.Sort(levels)
	levels = slices.Compact(levels)
	n := len(levels)
	if n <= curvePoints {
		return levels
	}
	for j := range curvePoints {
		levels[j] = levels[(j+1)*n/curvePoints-1]
	}
	return levels[:curvePoints]
}

// curve is what this process's callers would use by level. It is exact, as long as it has
// enough points.
func (f *forest) curve() []Point {
	var levels []float64
	var asking []int
	for _, i := range f.roots {
		if b := &f.branches[i]; b.own > 0 {
			asking = append(asking, i)
			for _, amount := range f.bends(i) {
				levels = append(levels, amount/b.weight)
			}
		}
	}
	out := make([]Point, 0, min(len(levels), curvePoints))
	for _, level := range thin(levels) {
		p := Point{Level: level}
		for _, i := range asking {
			f.give(i, min(f.branches[i].all, f.branches[i].weight*level))
			f.uses(i, &p.Use)
		}
		out = append(out, p)
	}
	return out
}
