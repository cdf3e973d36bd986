package federation

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

const (
	// curvePoints is how many points a curve has at most.
	curvePoints = 64
	// memory is the time constant of what is remembered of demand.
	memory = 3 * time.Second
	// leastShare is the least part of its weight that a claim has anywhere, in millionths:
	// whoever begins to ask there is served until its demand is known.
	leastShare = 20_000
	wholeShare = 1_000_000
	// most is how many leaves a beat tells of: those with the largest demands. Others count
	// as if they asked nowhere else.
	mostDemands = 4096
)

// demands is what is known of who asks for what of one pool, here and elsewhere.
type demands struct {
	leaves map[string]*demand // by path
	shares map[string]int64   // by path, as of the last Share
}

func newDemands() demands { return demands{map[string]*demand{}, map[string]int64{}} }

// demand is what is known of one leaf's.
type demand struct {
	at      time.Time
	offered int64   // as of then
	units   Amounts // likewise
	// rate is what calls were offered here of late, as a virtual cost a Window, and use in
	// units a Window; own and with are these with what waits.
	rate, own float64
	use, with [axes]float64
	// told is what the last beat said, and others what all others ask for.
	told   int64
	others float64
}

// observe brings a leaf's demand to now.
func (d *demand) observe(now time.Time, r Rules, e escrow.Demand) {
	if dt := now.Sub(d.at).Seconds(); !d.at.IsZero() && dt > 0 {
		part := 1 - math.Exp(-dt/memory.Seconds())
		window := r.Window.Seconds() / dt
		d.rate += (float64(e.Offered-d.offered)*window - d.rate) * part
		for k := range d.use {
			d.use[k] += (float64(e.Units[k]-d.units[k])*window - d.use[k]) * part
		}
	}
	d.at, d.offered, d.units = now, e.Offered, e.Units
	beats := r.Window.Seconds() / r.Beat.Seconds()
	d.own = d.rate + float64(e.Waiting)*beats
	for k := range d.with {
		d.with[k] = d.use[k] + float64(e.WaitingUnits[k])*beats
	}
}

// tell is what a beat says of what is asked for.
func (ds *demands) tell(now time.Time, r Rules, tree []Claim) (curve []Point, list []Demand, under []string) {
	known := ds.leaves
	ds.leaves = make(map[string]*demand, len(tree))
	for _, c := range tree {
		if !c.Leaf {
			continue
		}
		d := known[c.Path]
		if d == nil {
			d = &demand{}
		}
		ds.leaves[c.Path] = d
		d.observe(now, r, c.Demand)
		if d.told = int64(d.own); d.told > 0 {
			list = append(list, Demand{c.Path, d.told})
		}
	}
	slices.SortFunc(list, func(a, b Demand) int { return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Path, b.Path)) })
	list = list[:min(len(list), mostDemands)]
	f := newForest(ds.leaves, tree)
	for _, i := range f.roots {
		if !tree[i].Leaf && f.branches[i].own > 0 {
			under = append(under, tree[i].Path)
		}
	}
	return f.curve(), list, under
}

// answered takes in what all ask for, and how high the water stands.
func (ds *demands) answered(r *Reply, tree []Claim) []Command {
	for _, d := range ds.leaves {
		d.others = 0
	}
	for _, t := range r.Totals {
		if d := ds.leaves[t.Path]; d != nil {
			d.others = max(0, float64(t.Rate-d.told))
		}
	}
	level := r.Level
	if level < 0 {
		level = math.Inf(1)
	}
	var out []Command
	f := newForest(ds.leaves, tree)
	f.flood(level)
	shares := make(map[string]int64, len(tree))
	for i, c := range tree {
		ppm := f.branches[i].share()
		was, told := ds.shares[c.Path]
		if d := ppm - was; told && max(d, -d)*100 < was {
			ppm = was // less than a hundredth is not worth moving tags for
		}
		if shares[c.Path] = ppm; ppm != was {
			out = append(out, Share{c.ID, ppm})
		}
	}
	ds.shares = shares
	return out
}

// below reports whether a path lies below one of others.
func below(path string, others []string) bool {
	return slices.ContainsFunc(others, func(o string) bool {
		return len(path) > len(o) && path[len(o)] == '/' && strings.HasPrefix(path, o)
	})
}
