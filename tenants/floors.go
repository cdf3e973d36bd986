package tenants

// floors checks that each floor can be kept: somewhere at all, and in each pool together with the others.
func (c *compiler) floors() {
	sums := make([]floorSum, len(c.cfg.Pools))
	for i := range c.tenants {
		t := &c.tenants[i]
		if t.FloorTPM <= 0 {
			continue
		}
		path := c.origin(t, "floor_tpm")
		inert := !c.r.refused[path]
		for _, at := range c.reach(t) {
			if p := &c.cfg.Pools[at]; p.TPM > 0 || c.r.refused[child(child("pools", p.Name), "tpm")] {
				inert = false
				sums[at].add(t)
			}
		}
		if inert && !c.said[path] && c.grantKnown(t) {
			c.said[path] = true
			c.r.at(path, "tenant %s may use no pool with a tpm, so its floor does nothing; set tpm in a pool, or remove floor_tpm",
				show(t.Name))
		}
	}
	for i := range sums {
		c.floorSum(&c.cfg.Pools[i], sums[i])
	}
}

// floorSum is what the tenants that may use a pool want of it at least.
type floorSum struct {
	tokens  int64
	tenants int
	largest *Tenant
}

func (s *floorSum) add(t *Tenant) {
	s.tokens += t.FloorTPM
	s.tenants++
	if s.largest == nil || t.FloorTPM > s.largest.FloorTPM {
		s.largest = t
	}
}

func (c *compiler) floorSum(p *Pool, s floorSum) {
	path := child("pools", p.Name)
	if s.tokens <= p.usableTPM() || c.r.refused[child(path, "tpm")] || c.r.refused[child(path, "headroom")] {
		return
	}
	c.r.at(c.origin(s.largest, "floor_tpm"),
		"the floors in pool %s (tenants: %d) add up to %d, but its tpm less headroom is %d; lower floors, this one is the largest, or raise tpm",
		show(p.Name), s.tenants, s.tokens, p.usableTPM())
}

// usableTPM is the pool's tokens a minute less its headroom, rounded down, but never less than one.
func (p *Pool) usableTPM() int64 {
	return max(1, p.TPM*(1_000_000-p.HeadroomPPM)/1_000_000)
}
