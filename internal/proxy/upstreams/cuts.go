package upstreams

import "time"

// Cut is a temporary reduction of a pool; see governor.Cut.
type Cut struct {
	Part                 int64
	TPM, RPM, ITPM, OTPM int64
	// Upstream is the member that it is of, if members have limits of their own.
	Upstream string
	Until    time.Time
}

// whole is the part of a whole pool.
const whole = 1_000_000

// brokenFor is the longest time that a broken upstream is cut from its pool without further
// calls.
const brokenFor = 10 * time.Minute

// Cuts are the reductions of a pool with these limits (0 is none).
func (s *Set) Cuts(now time.Time, pool Told) []Cut {
	total := int64(0)
	for _, m := range s.Members {
		total += m.Weight
	}
	var cuts []Cut
	// the time of the next probe of each, by its cut
	broken := map[int]time.Time{}
	out := 0
	given := int64(0)
	for i, m := range s.Members {
		part := whole * m.Weight / total
		given += part
		if i == len(s.Members)-1 {
			part += whole - given // so that the parts add up to whole
		}
		m.mu.Lock()
		open := m.breaker.open
		probe := m.breaker.until
		cool := m.pauses.until(now, Scope{}, m.uses)
		said := m.largestLocked(now)
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
		of := pool
		if s.limited {
			of = m.own
			part = whole
		}
		less := Cut{
			TPM: lacks(of.Tokens, part, said.Tokens), RPM: lacks(of.Requests, part, said.Requests),
			ITPM: lacks(of.Input, part, said.Input), OTPM: lacks(of.Output, part, said.Output),
			Upstream: name, Until: said.at.Add(limitsLast),
		}
		if max(less.TPM, less.RPM, less.ITPM, less.OTPM) > 0 {
			cuts = append(cuts, less)
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

// lacks is the difference between an upstream's part of a pool's limit and the lower limit it declares.
func lacks(limit, part, said int64) int64 {
	if limit == 0 || said == 0 {
		return 0
	}
	share := int64(float64(limit) * float64(part) / whole)
	return max(0, share-said)
}
