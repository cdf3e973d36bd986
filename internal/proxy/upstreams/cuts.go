package upstreams

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Cut is a temporary reduction of a pool; see governor.Cut.
type Cut struct {
	Part  int64
	Less  Told // taken off limits; below 0 added
	Paced bool
	// Upstream is the member that it is of, if members have limits of their own.
	Upstream string
	Until    time.Time
}

// whole is the part of a whole pool.
const whole = 1_000_000

// brokenFor is the longest time that a broken upstream is cut from its pool without further
// calls.
const brokenFor = 10 * time.Minute

// parts are the parts of each member, which add up to whole.
func (s *Set) parts() (parts []int64) {
	total := int64(0)
	for _, m := range s.Members {
		total += m.Weight
	}
	left := int64(whole)
	for _, m := range s.Members {
		parts = append(parts, whole*m.Weight/total)
		left -= parts[len(parts)-1]
	}
	parts[len(parts)-1] += left
	return parts
}

// Below is by how much a pool's limits (0 is none) are lower because its upstreams declare lower ones.
func (s *Set) Below(now time.Time, pool Told) (below Told) {
	for i, part := range s.parts() {
		m := s.Members[i]
		m.mu.Lock()
		c, _ := m.lacksLocked(now, s.limitsOf(m, pool, part), nil)
		m.mu.Unlock()
		below = below.Plus(c.Less, 1)
	}
	return below
}

// Divide tells the sets of all pools, given the pools' limits, which parts of a common account they have: those of their limits. A pool without a
// limit counts as much as the largest.
func Divide(sets []*Set, pools []Told) {
	each := func(do func(set int, m *Member, own Told)) {
		for i, s := range sets {
			for j, part := range s.parts() {
				do(i, s.Members[j], s.limitsOf(s.Members[j], pools[i], part))
			}
		}
	}
	type pool struct {
		set     int
		account string
	}
	largest, all, inPool := map[string]Told{}, map[string]Told{}, map[pool]Told{}
	claim := func(m *Member, own Told) Told {
		for k, limit := range own {
			own[k] = cmp.Or(limit, largest[m.Account][k], 1)
		}
		return own
	}
	each(func(_ int, m *Member, own Told) {
		most := largest[m.Account]
		for k, limit := range own {
			most[k] = max(most[k], limit)
		}
		largest[m.Account] = most
	})
	each(func(i int, m *Member, own Told) {
		all[m.Account] = all[m.Account].Plus(claim(m, own), 1)
		inPool[pool{i, m.Account}] = inPool[pool{i, m.Account}].Plus(claim(m, own), 1)
	})
	each(func(i int, m *Member, own Told) {
		of := inPool[pool{i, m.Account}]
		for k, limit := range claim(m, own) {
			m.inPool[k] = float64(limit) / float64(of[k])
			m.ofPools[k] = float64(of[k]) / float64(all[m.Account][k])
		}
	})
}

// limitsOf are a member's own limits, or its part of the pool's.
func (s *Set) limitsOf(m *Member, pool Told, part int64) Told {
	if s.limited {
		return m.own
	}
	for of, limit := range pool {
		pool[of] = int64(float64(limit) * float64(part) / whole)
	}
	return pool
}

// movedLasts is how long the least time is for which limits that have moved count without another Look. It is the same from one day to the next.
const movedLasts = 24 * time.Hour

// Cuts are the reductions of a pool with these configured limits (0 is none).
func (s *Set) Cuts(now time.Time, configured Told) []Cut {
	var cuts []Cut
	found, pool := s.Limits(now, configured)
	until := now.Truncate(movedLasts).Add(2 * movedLasts)
	for i, less := range []Told{configured.Plus(found, -1), found.Plus(pool, -1)} {
		if less != (Told{}) {
			cuts = append(cuts, Cut{Less: less, Paced: i == 1, Until: until})
		}
	}
	// the time of the next probe of each, by its cut
	broken := map[int]time.Time{}
	out := 0
	for i, part := range s.parts() {
		m := s.Members[i]
		m.mu.Lock()
		open := m.breaker.open
		probe := m.breaker.until
		cool := m.pauses.until(now, Scope{}, m.uses)
		less := m.lessLocked(now, s.limitsOf(m, pool, part))
		m.mu.Unlock()
		name := ""
		if s.limited {
			name = m.Name
		}
		switch {
		case cool.After(now):
			out++
			cuts = append(cuts, Cut{Part: part, Upstream: name, Until: cool})
		case open:
			out++
			broken[len(cuts)] = probe
			until := now.Add(brokenFor)
			if s.limited {
				until = probe // a call goes there only if it is counted there
			}
			cuts = append(cuts, Cut{Part: part, Upstream: name, Until: until})
		}
		for _, c := range less {
			c.Upstream = name
			cuts = append(cuts, c)
		}
	}
	if out < len(s.Members) {
		return cuts
	}
	for i, probe := range broken {
		cuts[i].Until = probe
		if out == len(broken) { // so that calls fail at once instead of waiting
			cuts[i].Part = 0
			if s.limited {
				cuts[i].Until = now
			}
		}
	}
	return cuts
}

// fading is in how many steps a cut for use by others ends, if no answer tells of it any more.
const fading = 4

// lessLocked are the cuts by which limits are as low as those that the upstream declares, less what others use of them.
func (m *Member) lessLocked(now time.Time, of Told) (cuts []Cut) {
	after, lowers := m.lacksLocked(now, of, nil)
	if lowers {
		cuts = append(cuts, after)
	}
	from, lasts := m.othersLastLocked(now)
	for i := fading - 1; i >= 0; i-- {
		until := from.Add(lasts * time.Duration(i+1) / fading)
		if !until.After(now) {
			break
		}
		then, _ := m.lacksLocked(from.Add(lasts*time.Duration(i)/fading), of, &m.ofPools)
		less := then.Less.Plus(after.Less, -1)
		if slices.Min(less[:]) >= 0 && less != (Told{}) {
			cuts = append(cuts, Cut{Less: less, Until: until})
			after = then
		}
	}
	return cuts
}

// lacksLocked is by how much limits are more than those that the upstream declares, or than what others leave of these.
func (m *Member) lacksLocked(now time.Time, of Told, parts *[limits.Kinds]float64) (c Cut, any bool) {
	said := m.largestLocked(now, parts)
	c.Until = said.at.Add(limitsLast)
	for k, limit := range of {
		if room := said.Told[k]; limit > 0 && room > 0 && m.heeds != HeedOff {
			c.Less[k] = limit - min(limit, max(1, int64(float64(room)*m.inPool[k])))
		}
	}
	return c, c.Less != (Told{})
}
