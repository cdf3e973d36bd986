// Package splice edits a body byte for byte: a call is sent on as its client wrote it, except for a few
// values. [Copy] and [InPlace] apply edits that were collected while the body was read; [Member] is the
// text of an edit that adds a member to a JSON object. It does not know JSON otherwise.
package splice

import "slices"

// Edit replaces body[Start:End] by Text; an insertion has Start == End.
type Edit struct {
	Start, End int
	Text       string
}

// Copy applies edits that do not overlap, in a copy. Every other byte stays as it was.
func Copy(body []byte, edits []Edit) []byte {
	if len(edits) == 0 {
		return body
	}
	return apply(make([]byte, 0, len(body)+inserted(edits)), body, edits)
}

// InPlace is Copy without a copy, if there is enough room behind the body: a second large body would
// be memory that nobody counts. Of the parts between edits, each moves at most once.
func InPlace(body []byte, edits []Edit) []byte {
	room := inserted(edits)
	if len(body)+room > cap(body) {
		return Copy(body, edits)
	}
	Sort(edits)
	grown := body[:len(body)+room]
	shift := 0
	for i := range edits {
		shift += edits[i].growth()
	}
	moveRight(grown, len(body), edits, shift)
	moveLeft(grown, len(body), edits)
	at := 0 // by how much the edits before change the length
	for _, e := range edits {
		copy(grown[e.Start+at:], e.Text)
		at += e.growth()
	}
	return grown[:len(body)+shift]
}

// growth is by how many bytes the edit makes a body longer.
func (e *Edit) growth() int { return len(e.Text) - (e.End - e.Start) }

// moveRight moves the parts behind edits that come to stand further right, the last one first. shift is by
// how much all edits change the length.
func moveRight(grown []byte, end int, edits []Edit, shift int) {
	for i := len(edits) - 1; i >= 0; i-- {
		e := &edits[i]
		if shift > 0 {
			copy(grown[e.End+shift:], grown[e.End:end])
		}
		end = e.Start
		shift -= e.growth()
	}
}

// moveLeft moves the parts behind edits that come to stand further left, the first one first.
func moveLeft(grown []byte, end int, edits []Edit) {
	shift := 0
	for i := range edits {
		e := &edits[i]
		shift += e.growth()
		partEnd := end
		if i+1 < len(edits) {
			partEnd = edits[i+1].Start
		}
		if shift < 0 {
			copy(grown[e.End+shift:], grown[e.End:partEnd])
		}
	}
}

// inserted is how much longer edits can make a body.
func inserted(edits []Edit) int {
	n := 0
	for _, e := range edits {
		n += len(e.Text)
	}
	return n
}

// apply appends the edited body to out.
func apply(out, body []byte, edits []Edit) []byte {
	Sort(edits)
	at := 0
	for _, e := range edits {
		out = append(out, body[at:e.Start]...)
		out = append(out, e.Text...)
		at = e.End
	}
	return append(out, body[at:]...)
}

// Sort puts edits into the order of their places. Those of one place keep their order.
func Sort(edits []Edit) {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Start - b.Start })
}

// Moved is where a place of the body stands when it has been edited, behind what is inserted there. No edit
// replaces it.
func Moved(edits []Edit, at int) int {
	shift := 0
	for i := range edits {
		if edits[i].Start <= at {
			shift += edits[i].growth()
		}
	}
	return at + shift
}

// Member is the text that inserts a member at the front of a JSON object, whose other members follow
// unless it is empty. The value is JSON.
func Member(key, value string, empty bool) string {
	if empty {
		return `"` + key + `":` + value
	}
	return `"` + key + `":` + value + `,`
}
