package upstreams

import "time"

// Cut is what cannot be had of a pool for a while; see governor.Cut.
type Cut struct {
	Part     int64
	TPM, RPM int64
	Until    time.Time
}

// whole is all of a pool.
const whole = 1_000_000

// brokenFor is how long an upstream that does not work is missing from its pool, if no
// call tells otherwise.
const brokenFor = 10 * time.Minute

// Cuts are what is missing from a pool of such limits (0 is none).
func (s *Set) Cuts(now time.Time, tpm, rpm int64) []Cut {
	total := int64(0)
	for _, m := range s.Members {
		total += m.Weight
	}
	var cuts []Cut
	// when each of them may be probed, by its cut
	broken := map[int]time.Time{}
	out := 0
	given := int64(0)
	for i, m := range s.Members {
		part := whole * m.Weight / total
		given += part
		if i == len(s.Members)-1 {
			part += whole - given // so that all are all
		}
		m.mu.Lock()
		open := m.breaker.open
		probe := m.breaker.until
		cool := m.cool
		said := m.believedLocked(now)
		m.mu.Unlock()
		switch {
		case cool.After(now):
			out++
			cuts = append(cuts, Cut{Part: part, Until: cool})
		case open:
			out++
			broken[len(cuts)] = probe
			cuts = append(cuts, Cut{Part: part, Until: now.Add(brokenFor)})
		}
		less := Cut{TPM: lacks(tpm, part, said.tokens), RPM: lacks(rpm, part, said.requests), Until: said.at.Add(limitsLast)}
		if less.TPM > 0 || less.RPM > 0 {
			cuts = append(cuts, less)
		}
	}
	if out < len(s.Members) {
		return cuts
	}
	for i, probe := range broken {
		cuts[i].Until = probe
		if out == len(broken) { // calls are to be told at once that nothing works
			cuts[i].Part = 0
		}
	}
	return cuts
}

// lacks is how much less an upstream allows than its part of a pool's limit.
func lacks(limit, part, said int64) int64 {
	if limit == 0 || said == 0 {
		return 0
	}
	share := int64(float64(limit) * float64(part) / whole)
	return max(0, share-said)
}
