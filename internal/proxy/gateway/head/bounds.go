package head

import (
	"strconv"

	"github.com/llmgov/llmgov/internal/lib/splice"
)

// Bound is the most tokens that one answer may have by the bounds of these names; 0 if the body does not
// say. If there are two of them, servers differ in which one they obey, so the larger one counts.
func (h *Head) Bound(names []Bound) int64 {
	most := int64(0)
	for _, b := range names {
		most = max(most, h.bounds[b].value)
	}
	if most == noBound {
		return 0
	}
	return most
}

// Clamp cuts every bound on the length of the answer to most, also those of other names than a route's.
// It adds the first of the names if none of them is there.
func (h *Head) Clamp(edits []splice.Edit, names []Bound, most int64) []splice.Edit {
	text := strconv.FormatInt(most, 10)
	for i := range h.bounds {
		f := &h.bounds[i]
		if f.present && (f.value == 0 || f.value > most) {
			edits = append(edits, splice.Edit{Start: f.start, End: f.end, Text: text})
			f.value = most
		}
	}
	if h.Bound(names) == 0 {
		edits = append(edits, h.insert(boundKeys[names[0]], text, h.empty))
		h.bounds[names[0]] = field{present: true, value: most}
	}
	return edits
}

// insert is the edit that adds a member at the front of the body.
func (h *Head) insert(key, value string, empty bool) splice.Edit {
	return splice.Edit{Start: h.open, End: h.open, Text: splice.Member(key, value, empty)}
}
