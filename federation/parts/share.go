package parts

import (
	"slices"

	"github.com/llmgov/llmgov/internal/lib/maxmin"
)

// grant answers a claim: with what its process should have, but no more than all others leave.
func (a *Account) grant(m *Member, h *Hold, of []peer, expect int64) Part {
	if a.over(*h) {
		return Part{}
	}
	limit := a.limit(h, of)
	r := Part{}
	free := limit
	avail := limit
	live := make([]*Hold, 0, len(of))
	for _, x := range of {
		counts := x.Used
		if a.live(x.Hold) {
			live = append(live, x.Hold)
		} else {
			counts = x.belief() // it is silent, and may have used all of its part
			avail = less(avail, counts)
		}
		if x.m == m {
			continue
		}
		free = less(free, x.belief())
		r.Others = min(r.Others+counts, maxSum)
		if a.live(x.Hold) {
			r.Held = min(r.Held+x.Held, maxSum)
			r.note(a.Now, x.Hold)
		}
	}
	part := min(max(target(h, live, avail), h.given), free, a.promised(m, h, of))
	switch {
	case a.Lost:
		part = min(h.High, free) // nobody gives up anything for those who get nothing yet
	case h.Kind == Slots && h.Tail > 0 && a.Now <= a.Began+2*ttl && !a.complete(expect):
		part = min(part, h.High) // others may have parts of which they have not told yet
	}
	h.High = max(h.High, part)
	if !a.Lost {
		a.promise(m, h, of, &r)
	}
	if h.Need <= part {
		h.Since = 0
	}
	r.Part = part
	return r
}

// note passes on the note of another member's hold.
func (r *Part) note(now int64, h *Hold) {
	if h.Note != "" {
		r.Notes = append(r.Notes, Note{now - h.Seen, h.Note})
	}
}

// limit is the lowest that any member knows that is still heard of.
func (a *Account) limit(h *Hold, of []peer) int64 {
	least := h.Limit
	for _, x := range of {
		if a.live(x.Hold) && x.Limit > 0 {
			least = min(least, x.Limit)
		}
	}
	return least
}

// maxSum bounds sums. Floats represent integers exactly up to 2⁵³.
const maxSum = 4 * MaxAmount

// less is x-y, but not below zero.
func less(x, y int64) int64 { return max(x-y, 0) }

// target is what one of the live holds should have of avail. There are three cases:
//   - All can have what they want.
//   - All can have what they want for calls that are there; the rest is divided evenly, unless
//     there is not a unit for each.
//   - There is too little for that: it is divided by weight. But the one that has waited longest
//     for a single call larger than its part gets what that call needs, so far as there is. It gets
//     nothing on top of that for what it used before, or those who make large calls would have
//     everything in the end.
//
// What is used of a Period nobody gives back, so only what is left of it is divided. Otherwise
// members that used little would be due more than there is, and keep what others could use.
func target(h *Hold, live []*Hold, avail int64) int64 {
	at := slices.Index(live, h)
	avail = less(avail, sum(live, (*Hold).gone))
	if avail >= sum(live, (*Hold).want) {
		return h.Want
	}
	if rest := avail - sum(live, (*Hold).firm); rest >= 0 {
		if rest < int64(len(live)) {
			return h.gone() + h.firm() // some would hold it for nothing, and others find none
		}
		return h.gone() + h.firm() + even(live, rest)[at]
	}
	parts, level := weigh(live, avail)
	first := -1
	for i, x := range live {
		if x.lacks(parts[i], level) && (first < 0 || x.Since < live[first].Since) {
			first = i
		}
	}
	if first >= 0 {
		least := min(live[first].call(), avail)
		rest := slices.Delete(slices.Clone(live), first, first+1)
		parts, _ = weigh(rest, avail-least)
		parts = slices.Insert(parts, first, least)
	}
	return h.gone() + parts[at]
}

// gone is what was used and never becomes free again.
func (h *Hold) gone() int64 {
	if h.Kind == Period {
		return h.Used
	}
	return 0
}

// want is what is wanted beyond that, and firm the part of it that is for calls that are there.
func (h *Hold) want() int64 { return h.Want - h.gone() }

func (h *Hold) firm() int64 { return less(h.Want-h.Spare, h.gone()) }

func sum(live []*Hold, of func(*Hold) int64) (n int64) {
	for _, x := range live {
		n = min(n+of(x), maxSum)
	}
	return n
}

// call is what has to be free at once for the call that has waited longest.
func (h *Hold) call() int64 { return h.Need - h.Used }

// lacks reports whether a call waits that would never go with such a part, where level is the least
// that any member has that wants more. With weights a part may be small for good, so what counts
// there is this part alone.
func (h *Hold) lacks(part, level int64) bool {
	if h.Weight > 0 {
		level = part
	}
	return h.Since > 0 && h.call() > level
}

// even divides avail evenly among what is wanted for calls that may come.
func even(live []*Hold, avail int64) []int64 {
	claims := make([]maxmin.Whole, len(live))
	for i, x := range live {
		claims[i] = maxmin.Whole{Demand: x.Spare, Weight: 1}
	}
	parts, _ := maxmin.DivideWhole(avail, claims)
	return parts
}

// weigh divides avail among what is wanted for calls that are there, by weight.
func weigh(live []*Hold, avail int64) (parts []int64, level int64) {
	claims := make([]maxmin.Whole, 0, 2*len(live))
	for _, x := range live {
		calm := less(x.CalmUse, x.gone())
		claims = append(
			claims,
			maxmin.Whole{Demand: calm, Weight: max(1, x.Calm)},
			maxmin.Whole{Demand: less(x.firm(), calm), Weight: max(1, x.Weight)},
		)
	}
	both, level := maxmin.DivideWhole(avail, claims)
	for i := range live {
		parts = append(parts, both[2*i]+both[2*i+1])
	}
	return parts, level
}
