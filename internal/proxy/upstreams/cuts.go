package upstreams

import (
	"slices"
	"time"
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
		c, _ := m.lacksLocked(now, s.limitsOf(m, pool, part), false)
		m.mu.Unlock()
		below = below.Plus(c.Less, 1)
	}
	return below
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

// lessLocked are the cuts by which limits are as low as those that the upstream declares, less what others use of them, and as what other pools leave.
func (m *Member) lessLocked(now time.Time, of Told) (cuts []Cut) {
	after, lowers := m.lacksLocked(now, of, false)
	if lowers {
		cuts = append(cuts, after)
	}
	from, lasts := m.othersLastLocked(now)
	for i := fading - 1; i >= 0; i-- {
		until := from.Add(lasts * time.Duration(i+1) / fading)
		if !until.After(now) {
			break
		}
		then, _ := m.lacksLocked(from.Add(lasts*time.Duration(i)/fading), of, true)
		less := then.Less.Plus(after.Less, -1)
		if slices.Min(less[:]) >= 0 && less != (Told{}) {
			cuts = append(cuts, Cut{Less: less, Until: until})
			after = then
		}
	}
	if now.Sub(m.shared) >= sharesLast {
		return cuts
	}
	shared := m.lessThan(of, m.most)
	for k := range shared {
		shared[k] = max(0, shared[k]-after.Less[k])
	}
	if shared != (Told{}) {
		cuts = append(cuts, Cut{Less: shared, Until: m.shared.Truncate(sharesLast).Add(2 * sharesLast)})
	}
	return cuts
}

// lacksLocked is by how much limits are more than those that the upstream declares, or than what others leave of these.
func (m *Member) lacksLocked(now time.Time, of Told, left bool) (c Cut, any bool) {
	said := m.largestLocked(now, left)
	c.Until = said.at.Add(limitsLast)
	c.Less = m.lessThan(of, said.Told)
	return c, c.Less != (Told{})
}

// lessThan is by how much limits are more than the member's part of what there is at the account; 0 is no limit.
func (m *Member) lessThan(of, there Told) (less Told) {
	for k, limit := range of {
		if room := there[k]; limit > 0 && room > 0 && m.heeds != HeedOff {
			less[k] = limit - min(limit, max(1, int64(float64(room)*m.inPool[k])))
		}
	}
	return less
}
