package gateway

import (
	"slices"
	"strconv"
)

// edit replaces body[start:end] by text; an insertion has start == end.
type edit struct {
	start, end int
	text       string
}

// splice applies edits that do not overlap, in a copy. Every other byte stays as it was.
func splice(body []byte, edits []edit) []byte {
	if len(edits) == 0 {
		return body
	}
	return apply(make([]byte, 0, len(body)+inserted(edits)), body, edits)
}

// spliceInPlace is splice without a copy, if there is enough room behind the body: a second large
// body would be memory that nobody counts.
func spliceInPlace(body []byte, edits []edit) []byte {
	room := inserted(edits)
	if len(body)+room > cap(body) {
		return splice(body, edits)
	}
	// The body moves to the end of its buffer, and is copied from there to the front.
	moved := body[:len(body)+room]
	copy(moved[room:], body)
	return apply(body[:0], moved[room:], edits)
}

// inserted is how much longer edits can make a body.
func inserted(edits []edit) int {
	n := 0
	for _, e := range edits {
		n += len(e.text)
	}
	return n
}

// apply appends the edited body to out.
func apply(out, body []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	at := 0
	for _, e := range edits {
		out = append(out, body[at:e.start]...)
		out = append(out, e.text...)
		at = e.end
	}
	return append(out, body[at:]...)
}

// member is the text that inserts a member at the front of an object.
func member(key, value string, empty bool) string {
	if empty {
		return `"` + key + `":` + value
	}
	return `"` + key + `":` + value + `,`
}

// askForUsage makes a stream report its usage. It reports whether the client did not ask for that,
// so that the extra chunk is to be withheld.
func (h *head) askForUsage(edits []edit) ([]edit, bool) {
	so := &h.streamOptions
	switch {
	case so.includeUsage:
		return edits, false
	case !so.present:
		return append(edits, edit{h.open, h.open, member("stream_options", `{"include_usage":true}`, h.empty)}), true
	case so.open == 0: // null
		return append(edits, edit{so.start, so.end, `{"include_usage":true}`}), true
	case so.usageField.present:
		return append(edits, edit{so.usageField.start, so.usageField.end, "true"}), true
	}
	return append(edits, edit{so.open, so.open, member("include_usage", "true", so.empty)}), true
}

// clamp cuts every bound on the length of the answer to most, also those that other routes use, and
// adds the route's own if it has none.
func (h *head) clamp(edits []edit, r *route, most int64) []edit {
	text := strconv.FormatInt(most, 10)
	for i := range h.bounds {
		f := &h.bounds[i]
		if f.present && (f.value == 0 || f.value > most) {
			edits = append(edits, edit{f.start, f.end, text})
			f.value = most
		}
	}
	if h.bound(r) == 0 {
		edits = append(edits, edit{h.open, h.open, member(boundKeys[r.bounds[0]], text, h.empty)})
		h.bounds[r.bounds[0]] = field{present: true, value: most}
	}
	return edits
}

// bound is the most tokens that one answer may have; 0 if the body does not say. If a route has two
// names for it, servers differ in which one they obey, so the larger one counts.
func (h *head) bound(r *route) int64 {
	most := int64(0)
	for _, b := range r.bounds {
		most = max(most, h.bounds[b].value)
	}
	return most
}
