package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// floors checks that each floor can be kept: somewhere at all, within its parent's, and in each pool together with the
// others.
func (c *compiler) floors() {
	reach := map[int][]int{}
	for i := range c.tenants {
		if t := &c.tenants[i]; t.FloorTPM > 0 {
			reach[i] = c.reach(t)
			c.inertFloor(t, reach[i])
		}
	}
	for i := range c.cfg.Pools {
		p := &c.cfg.Pools[i]
		if p.TPM == 0 {
			continue
		}
		has := func(t *Tenant) bool { return slices.Contains(reach[t.Index], i) }
		c.floorSum(p, addFloors(c.tenants, has, func(t *Tenant, teams floorSum) { c.teamFloors(t, p, teams) }))
	}
}

// inertFloor reports a floor that no pool could keep.
func (c *compiler) inertFloor(t *Tenant, reach []int) {
	keeps := func(p *Pool, path string) bool { return p.TPM > 0 || c.r.Refused[strictyaml.Child(path, "tpm")] }
	c.inert(t, "floor_tpm", reach, keeps, "tenant %s may use no pool with a tpm, so its floor does nothing; set tpm in a pool, or remove floor_tpm")
}

// inert reports a key of a tenant that works in none of the pools that it may use.
func (c *compiler) inert(t *Tenant, key string, reach []int, works func(p *Pool, path string) bool, complaint string) {
	path := c.origin(t, key)
	if c.r.Refused[path] || c.said[path] || !c.grantKnown(t) {
		return
	}
	for _, at := range reach {
		p := &c.cfg.Pools[at]
		if works(p, strictyaml.Child("pools", p.Name)) {
			return
		}
	}
	c.said[path] = true
	c.r.At(path, complaint, strictyaml.Show(t.Name))
}

// floorSum adds up the floors of some of those that may use a pool.
type floorSum struct {
	tokens  int64
	floors  int
	largest *Tenant
}

func (s *floorSum) add(o floorSum) {
	s.tokens += o.tokens
	s.floors += o.floors
	if s.largest == nil || o.largest.FloorTPM >= s.largest.FloorTPM {
		s.largest = o.largest
	}
}

// addFloors adds up the floors in one pool: those of tenants, and of teams where no parent has one. has reports who may
// use the pool, and over is told of a parent whose teams' floors come to more than its own.
func addFloors(list []Tenant, has func(*Tenant) bool, over func(t *Tenant, teams floorSum)) (top floorSum) {
	below := map[int]floorSum{}
	for i := len(list) - 1; i >= 0; i-- { // teams before their parents
		t := &list[i]
		sum := below[i]
		if t.FloorTPM > 0 && has(t) {
			if sum.tokens > t.FloorTPM {
				over(t, sum)
			}
			sum = floorSum{t.FloorTPM, 1, t}
		}
		if sum.floors == 0 {
			continue
		}
		if t.Parent < 0 {
			top.add(sum)
			continue
		}
		teams := below[t.Parent]
		teams.add(sum)
		below[t.Parent] = teams
	}
	return top
}

// teamFloors reports floors of teams that do not fit into their parent's.
func (c *compiler) teamFloors(t *Tenant, p *Pool, teams floorSum) {
	path := c.origin(teams.largest, "floor_tpm")
	own := c.origin(t, "floor_tpm")
	if c.said[path] || c.r.Refused[own] {
		return
	}
	c.said[path] = true
	c.r.At(path, "the floors of the teams of %s in pool %s (teams: %d) add up to %d, but its own floor_tpm is %d at %s; lower floors, this one is the largest, or raise its",
		strictyaml.Show(t.Name), strictyaml.Show(p.Name), teams.floors, teams.tokens, t.FloorTPM, c.r.Place(own).Or("its place"))
}

// floorSum reports floors that do not fit into a pool.
func (c *compiler) floorSum(p *Pool, s floorSum) {
	path := strictyaml.Child("pools", p.Name)
	if s.tokens <= p.UsableTPM() || c.r.Refused[strictyaml.Child(path, "tpm")] || c.r.Refused[strictyaml.Child(path, "headroom")] {
		return
	}
	c.r.At(c.origin(s.largest, "floor_tpm"),
		"the floors in pool %s (tenants: %d) add up to %d, but its tpm less headroom is %d; lower floors, this one is the largest, or raise tpm",
		strictyaml.Show(p.Name), s.floors, s.tokens, p.UsableTPM())
}

// Floors is the sum of tokens a minute that p owes in any case: the floors of its tenants, and of teams where no parent has
// one. It is 0 where p has no tpm.
func (s *Snapshot) Floors(p *Pool) int64 {
	if p.TPM == 0 {
		return 0
	}
	return addFloors(s.tenants, func(t *Tenant) bool { return s.Reaches(t, p) }, func(*Tenant, floorSum) {}).tokens
}
