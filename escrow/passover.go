package escrow

// passOver has a call for which no upstream has room, and all others that may use no other upstreams than those that are waited for
// now, passed over until the end of Pump. It reports false if those are all that wait.
func (p *Pool) passOver(e *entry) bool {
	p.passed |= p.openTo(e)
	if p.waitingVia.union()&^p.passed == 0 {
		return false
	}
	p.over = p.passed
	if !p.passedOver(e.via) { // the rest of its upstreams is shut to its leaf alone
		p.hide(e.leaf)
	}
	return true
}

// hide has a leaf stand aside until the end of Pump.
func (p *Pool) hide(leaf NodeID) {
	p.setAside(leaf, true)
	p.hidden = append(p.hidden, leaf)
}

// showAll ends what hide and passOver have begun.
func (p *Pool) showAll() {
	for _, i := range p.hidden {
		p.setAside(i, false)
	}
	p.hidden = p.hidden[:0]
	p.over = 0
}

// viaCount counts the calls that wait by the upstreams that they may use, and by their bands. There are few masks: those of tenants.
type viaCount []viaCalls

type viaCalls struct {
	via   Mask
	below int // how far the band is below the highest
	calls int64
	cost  Cost
}

// add counts a call of a band (by = 1), or takes one off (by = -1).
func (v *viaCount) add(e *entry, below int, by int64) {
	i := 0
	for i < len(*v) && ((*v)[i].via != e.via || (*v)[i].below != below) {
		i++
	}
	if i == len(*v) {
		*v = append(*v, viaCalls{via: e.via, below: below})
	}
	one := &(*v)[i]
	one.calls += by
	for k := range one.cost {
		one.cost[k] += by * e.cost[k]
	}
	if one.calls == 0 {
		last := len(*v) - 1
		(*v)[i] = (*v)[last]
		*v = (*v)[:last]
	}
}

// union is the mask of all upstreams that some waiting call may use.
func (v viaCount) union() (all Mask) {
	for i := range v {
		all |= v[i].via
	}
	return all
}

// within is the cost of the calls that wait for no other upstreams than those of a mask.
func (v viaCount) within(via Mask) (sum Cost) {
	for i := range v {
		if v[i].via&^via == 0 {
			sum = sum.plus(v[i].cost)
		}
	}
	return sum
}

// mean is the mean cost of the calls.
func (v *viaCalls) mean() (c Cost) {
	for k := range c {
		c[k] = v.cost[k] / v.calls
	}
	return c
}
