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
	// memory is the time constant with which demand is forgotten.
	memory = 3 * time.Second
	// doubt is the time constant with which callers' behaviour is forgotten.
	doubt = 10 * time.Second
	// leastShare is the least part of its weight, in millionths, that a claim has anywhere, so that
	// callers that begin to come are served until their demand is known.
	leastShare = 20_000
	wholeShare = 1_000_000
	// mostDemands is how many leaves a beat tells of: those with the largest demands. Others count
	// as if they asked nowhere else.
	mostDemands = 4096
)

// demands are the known demands for one pool, here and elsewhere.
type demands struct {
	leaves map[string]*demand // by path
	shares map[string]int64   // by path, as of the last Share
	short  bool               // by the last answer not all can have what they ask for
}

func newDemands() demands { return demands{leaves: map[string]*demand{}, shares: map[string]int64{}} }

// demand is what is known of the demand at one leaf: what it uses, and what callers could use that
// were not served yet. How often they ask says nothing of that: a caller that is refused may ask
// again at once, or when told to, or never.
type demand struct {
	at    time.Time
	known escrow.Demand // as of the last observation
	// rate is what was served here of late, and away what was refused without a place being kept,
	// both as a virtual cost a Window. use is in units a Window.
	rate, away float64
	use        [axes]float64
	// line is how much waited, as of the longest of late while callers were refused.
	line float64
	// served and again are, over a longer time, what was served, and what was refused to callers
	// that may have a place already: see trust.
	served, again float64
	// own is what could be used here; and what that comes to in units.
	own  float64
	with [axes]float64
	// told is the demand of the last beat, and others that of all other nodes.
	told   int64
	others float64
}

// observe brings a leaf's demand to now: what it is served; what waits, all of which could go
// within a beat; and what was refused with a place kept, so far as those places are trusted. If no
// places are kept, the demand is twice what the leaf has, so that it gets more step by step.
// While callers are refused, the line is as long as it was of late: it runs dry now and then, at one node after the other, when they may
// not wait as long as they would have to.
func (d *demand) observe(now time.Time, r Rules, e escrow.Demand) {
	line := 0.0
	if dt := now.Sub(d.at).Seconds(); !d.at.IsZero() && dt > 0 {
		window := r.Window.Seconds() / dt
		follow := func(x *float64, now, then int64, memory time.Duration) {
			*x += (float64(max(0, now-then))*window - *x) * (1 - math.Exp(-dt/memory.Seconds()))
		}
		follow(&d.rate, e.Served, d.known.Served, memory)
		follow(&d.away, e.Away, d.known.Away, memory)
		follow(&d.served, e.Served, d.known.Served, doubt)
		follow(&d.again, e.Again, d.known.Again, doubt)
		for k := range d.use {
			follow(&d.use[k], e.Units[k], d.known.Units[k], memory)
		}
		if e.Again > d.known.Again || e.Away > d.known.Away {
			line = d.line * math.Exp(-dt/doubt.Seconds())
		}
	}
	d.at = now
	d.known = e
	beats := r.Window.Seconds() / r.Beat.Seconds()
	kept := d.trust() * float64(e.Due)
	there := float64(e.Waiting-e.Due) + kept
	d.own = d.rate + there*beats
	d.with = d.use
	refused := 0.0
	if e.Due == 0 {
		refused = min(d.away, d.own)
	}
	if e.Due > 0 || d.away >= float64(e.Call) { // at least one of these callers is there
		refused = max(refused, (float64(e.Call)-kept)*beats)
	}
	d.line = max(line, there)
	refused = max(refused, (d.line-there)*beats)
	d.own += refused
	for k := range d.with {
		d.with[k] += float64(e.WaitingUnits[k])*(there/max(1, float64(e.Waiting)))*beats +
			float64(e.CallUnits[k])*(refused/max(1, float64(e.Call)))
	}
}

// trust is the part of the kept places that is believed to belong to different callers. A caller
// that comes back when told to has one place, and is served once for it. One that asks again at
// once gets another place each time: the more often that happens, the less all these places say.
func (d *demand) trust() float64 {
	if d.again <= d.served {
		return 1
	}
	return (d.served / d.again) * (d.served / d.again)
}

// tell is the demand for a beat.
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
		d.told = int64(d.own)
		if d.told > 0 {
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

// answered takes in the demand of all nodes, and the water level. beyond is that of the pool's other accounts.
func (ds *demands) answered(r *Reply, tree []Claim, beyond float64) []Command {
	for _, d := range ds.leaves {
		d.others = 0
	}
	for _, t := range r.Totals {
		if d := ds.leaves[t.Path]; d != nil {
			d.others = max(0, float64(t.Rate-d.told))
		}
	}
	ds.short = r.Level >= 0
	level := r.Level
	if level < 0 {
		level = math.Inf(1)
	}
	if beyond > 0 {
		level = min(level, beyond)
	}
	var out []Command
	f := newForest(ds.leaves, tree)
	f.flood(level)
	shares := make(map[string]int64, len(tree))
	for i, c := range tree {
		ppm := f.branches[i].share()
		was, told := ds.shares[c.Path]
		if d := ppm - was; told && max(d, -d)*100 < was {
			ppm = was // a change of less than a hundredth is not worth moving tags
		}
		shares[c.Path] = ppm
		if ppm != was {
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
