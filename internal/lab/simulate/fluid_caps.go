package simulate

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// cap cuts demands to the soft cap of each tenant. Beyond it, a tenant wants what the others leave of half of the slots.
func (f *fluid) cap(dt float64) {
	if f.Pool.SoftCapPPM == 0 {
		return
	}
	slots := dt / escrow.Window.Seconds() // all of them for a step, in minutes of the pool
	most := slots * float64(f.Pool.SoftCapPPM) / 1e6
	wants := map[string]float64{} // by tenant
	all := 0.0
	for i, x := range f.demands {
		wants[f.tenants[i]] += x
	}
	for _, x := range wants {
		all += min(x, most)
	}
	for i := range f.demands {
		want := wants[f.tenants[i]]
		f.demands[i] *= min(1, max(most, most+slots/2-all)/max(want, fluidDust))
	}
}

// holdBack cuts demands to the room of each priority: what the higher ones leave of the slots in whose room its calls may
// begin, or its share by weight of all slots in use, if that is more.
func (f *fluid) holdBack(dt float64) {
	if f.Pool.HoldBackPPM == 0 && f.Pool.InteractiveReserve == 0 {
		return
	}
	slot := dt / escrow.Window.Seconds() / float64(f.Pool.Concurrency) // for a step, in minutes of the pool
	rule := escrow.Rule{Of: escrow.Lower, FreePPM: f.Pool.HoldBackPPM}
	room := rule.Sized(f.Pool.Concurrency).Most
	higher := 0.0
	weights := 0.0
	for below := range room {
		wanted := 0.0
		weight := 0.0
		slots := room[below]
		for i := range f.demands {
			leaf := &f.tree.Leaves[i]
			if f.demands[i] == 0 || leaf.Below != below {
				continue
			}
			wanted += f.demands[i]
			weight += leaf.Guaranteed
			if leaf.Background {
				slots = min(slots, f.Pool.Concurrency-f.Pool.InteractiveReserve)
			}
		}
		if wanted == 0 {
			continue
		}
		most := slot*float64(slots) - higher
		if weights > 0 {
			most = max(most, higher*weight/weights)
		}
		if most < wanted {
			f.scale(below, most/wanted)
			wanted = most
		}
		higher += wanted
		weights += weight
	}
}

// scale multiplies the demands of a band.
func (f *fluid) scale(below int, by float64) {
	for i := range f.demands {
		if f.tree.Leaves[i].Below == below {
			f.demands[i] *= by
		}
	}
}

// confine cuts the demands of tenants that may use only some upstreams to the limits of these, by max-min.
func (f *fluid) confine(now time.Duration) {
	m := f.measures[0]
	for _, set := range f.sets {
		most := 0.0
		for i := range f.Pool.Upstreams {
			if set&escrow.Mask(0).With(i) != 0 {
				most += f.openAt(m, i, now, now+fluidStep)
			}
		}
		wanted := make([]float64, len(f.demands))
		for i, x := range f.demands {
			if via := f.tree.Leaves[i].Via; via != 0 && via&^set == 0 {
				wanted[i] = x
			}
		}
		if sum(wanted) <= most/m.usable {
			continue
		}
		f.tree.MaxMin(most/m.usable, wanted, f.shares)
		for i := range wanted {
			if wanted[i] > 0 {
				f.demands[i] = f.shares[i]
			}
		}
	}
}

// viaSets are the sets of upstreams to which tenants are confined, and their unions, the smaller first.
func (t *Tree) viaSets() (sets []escrow.Mask) {
	for i := range t.Leaves {
		via := t.Leaves[i].Via
		if via == 0 || slices.Contains(sets, via) {
			continue
		}
		for _, other := range append(slices.Clone(sets), 0) {
			if !slices.Contains(sets, via|other) {
				sets = append(sets, via|other)
			}
		}
	}
	slices.SortFunc(sets, func(a, b escrow.Mask) int {
		return cmp.Or(cmp.Compare(bits.OnesCount64(uint64(a)), bits.OnesCount64(uint64(b))), cmp.Compare(a, b))
	})
	return sets
}
