package parts

import (
	"cmp"
	"slices"
)

// grant answers a claim: what its process should have, but no more than all others leave.
func (a *Account) grant(m *Member, h *Hold, limit int64) Part {
	if a.over(*h) {
		return Part{}
	}
	r, free, avail := Part{}, limit, limit
	var live []*Hold
	for i := range a.Members {
		o, x := &a.Members[i], h
		if o != m {
			if x = named(o.Holds, h.Name); x == nil {
				continue
			}
			free = less(free, x.belief())
		}
		counts := x.Used
		if a.live(x) {
			live = append(live, x)
			if o != m {
				r.Held = min(r.Held+x.Held, maxSum)
			}
		} else {
			counts = x.belief() // nobody gives back what it has not used
			avail = less(avail, counts)
		}
		if o != m {
			r.Others = min(r.Others+counts, maxSum)
		}
	}
	part := min(target(h, live, avail), free)
	h.High = max(h.High, part)
	if h.Need <= part {
		h.Since = 0
	}
	r.Part = part
	return r
}

// maxSum bounds sums, which floats keep exactly up to 2⁵³.
const maxSum = 4 * MaxAmount

// less is what is left, never below zero.
func less(x, y int64) int64 { return max(x-y, 0) }

// target is what one of those who are heard of should have of avail: what it wants, if all
// can have that. Else all get the same; but for the one that has waited longest for a call
// that is larger: it gets so much, as far as there is. It gets no more for what it used before
// that, or who makes large calls would have all in the end.
func target(h *Hold, live []*Hold, avail int64) int64 {
	if fit(live, avail) {
		return h.Want
	}
	even, level := share(live, avail)
	first := -1
	for i, x := range live {
		if x.Since > 0 && x.call() > level && (first < 0 || x.Since < live[first].Since) {
			first = i
		}
	}
	if first >= 0 {
		floor := min(live[first].call(), avail)
		rest := slices.Delete(slices.Clone(live), first, first+1)
		even, _ = share(rest, avail-floor)
		even = slices.Insert(even, first, floor)
	}
	return even[slices.Index(live, h)]
}

// call is what has to be free at once for the call that waits longest. What is used becomes
// free by itself, but of a Period.
func (h *Hold) call() int64 {
	if h.Kind == Period {
		return h.Need
	}
	return h.Need - h.Used
}

// fit reports whether all can have what they want.
func fit(live []*Hold, avail int64) bool {
	for _, x := range live {
		if avail -= x.Want; avail < 0 {
			return false
		}
	}
	return true
}

// share divides so much by max-min: nobody gets more than it wants, and nobody could get more
// but from who has no more than it. What does not divide goes to those who want most. Level is
// the least that any has of those who do not get all they want.
func share(live []*Hold, avail int64) (parts []int64, level int64) {
	order := make([]int, len(live))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(live[i].Want, live[j].Want) })
	parts, level = make([]int64, len(live)), -1
	for n, i := range order {
		parts[i] = min(live[i].Want, avail/int64(len(order)-n))
		if avail -= parts[i]; level < 0 && parts[i] < live[i].Want {
			level = parts[i]
		}
	}
	return parts, level
}
