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
	return apply(make([]byte, 0, len(body)+growth(edits)), body, edits)
}

// InPlace is Copy without a copy: a second large body would be memory that nobody counts. The body is what memory has from start on, and
// the rest of the memory, up to its capacity, is room. The longest part between edits stays where it is if there is room for the others.
func InPlace(memory []byte, start int, edits []Edit) []byte {
	body := memory[start:]
	Sort(edits)
	for _, stays := range [...]int{longest(len(body), edits), 0} {
		before := growth(edits[:stays])
		behind := growth(edits[stays:])
		if before > start || len(body)+behind > cap(body) {
			continue
		}
		memory = memory[:len(memory)+max(0, behind)]
		moved := move{memory, start, len(body), edits, before}
		moved.right()
		moved.left()
		moved.insert()
		return memory[start-before : start+len(body)+behind]
	}
	return Copy(body, edits)
}

// longest is before how many edits the longest part between them ends, in a body of so many bytes.
func longest(bytes int, edits []Edit) (stays int) {
	most := -1
	for i := range len(edits) + 1 {
		from, to := part(i, bytes, edits)
		if to-from > most {
			most = to - from
			stays = i
		}
	}
	return stays
}

// part is where the part lies that is behind i edits.
func part(i, bytes int, edits []Edit) (from, to int) {
	to = bytes
	if i > 0 {
		from = edits[i-1].End
	}
	if i < len(edits) {
		to = edits[i].Start
	}
	return from, to
}

// growth is by how many bytes edits make a body longer.
func growth(edits []Edit) (sum int) {
	for i := range edits {
		sum += edits[i].growth()
	}
	return sum
}

func (e *Edit) growth() int { return len(e.Text) - (e.End - e.Start) }

// move moves the parts between edits of a body, each at most once.
type move struct {
	memory       []byte
	start, bytes int // of the body
	edits        []Edit
	before       int // by how much the first part moves to the left
}

// right moves the parts that come to stand further right, the last one first.
func (m *move) right() {
	shift := growth(m.edits) - m.before
	for i := len(m.edits); i >= 0; i-- {
		if shift > 0 {
			m.shift(i, shift)
		}
		if i > 0 {
			shift -= m.edits[i-1].growth()
		}
	}
}

// left moves the parts that come to stand further left, the first one first.
func (m *move) left() {
	shift := -m.before
	for i := range len(m.edits) + 1 {
		if i > 0 {
			shift += m.edits[i-1].growth()
		}
		if shift < 0 {
			m.shift(i, shift)
		}
	}
}

// shift moves the part behind i edits.
func (m *move) shift(i, by int) {
	from, to := part(i, m.bytes, m.edits)
	copy(m.memory[m.start+from+by:], m.memory[m.start+from:m.start+to])
}

// insert writes the texts of the edits between the parts.
func (m *move) insert() {
	shift := -m.before
	for i := range m.edits {
		e := &m.edits[i]
		copy(m.memory[m.start+e.Start+shift:], e.Text)
		shift += e.growth()
	}
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

// Place is where the text of one of the edits begins in the edited body.
func Place(edits []Edit, which int) int {
	at := edits[which].Start
	for i := range edits {
		if edits[i].Start < edits[which].Start || edits[i].Start == edits[which].Start && i < which {
			at += edits[i].growth()
		}
	}
	return at
}

// Member is the text that inserts a member at the front of a JSON object, whose other members follow
// unless it is empty. The value is JSON.
func Member(key, value string, empty bool) string {
	if empty {
		return `"` + key + `":` + value
	}
	return `"` + key + `":` + value + `,`
}
