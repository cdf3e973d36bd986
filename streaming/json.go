package streaming

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// A cursor walks the members of one JSON object or array in place. It is here, rather than a JSON library,
// because a meter looks at five keys of each chunk and must neither allocate (an unescaped string does) nor
// recurse (a validator does) over what upstream sends. It checks that strings and brackets close and members
// are separated, no more.
type cursor struct {
	key   []byte // of the member, without its quotes; nil in an array
	value []byte // of the member, as written

	data   []byte
	i      int
	object bool
	first  bool
	done   bool // the closing bracket was passed
}

// open starts a walk over an object ('{') or an array ('['). Anything else has no members, and is not whole.
func open(data []byte, bracket byte) cursor {
	i := skipSpace(data, 0)
	if i == len(data) || data[i] != bracket {
		return cursor{}
	}
	return cursor{data: data, i: i + 1, object: bracket == '{', first: true}
}

// next goes on to the next member. After false, whole tells whether the end was reached rather than something
// broken.
func (c *cursor) next() bool {
	if c.done {
		return false
	}
	i := skipSpace(c.data, c.i)
	if i == len(c.data) {
		return false
	}
	if c.data[i] == ']' || c.data[i] == '}' {
		c.i = i + 1
		c.done = (c.data[i] == '}') == c.object
		return false
	}
	if !c.first {
		if c.data[i] != ',' {
			return false
		}
		i = skipSpace(c.data, i+1)
	}
	c.first = false
	if c.object {
		var ok bool
		c.key, i, ok = readKey(c.data, i)
		if !ok {
			return false
		}
	}
	end := skipValue(c.data, i)
	if end < 0 {
		return false
	}
	c.i = end
	c.value = c.data[i:end]
	return true
}

// whole reports that the walk has reached the closing bracket, with nothing but space after it.
func (c *cursor) whole() bool {
	return c.done && skipSpace(c.data, c.i) == len(c.data)
}

// member returns the value of the last member of that name in an object, or nil.
func member(object []byte, name string) (found []byte) {
	if len(object) == 0 { // as most are that chunks are searched for
		return nil
	}
	c := open(object, '{')
	for c.next() {
		if string(c.key) == name {
			found = c.value
		}
	}
	return found
}

// holds reports whether a value carries anything: a string with text, an object or array with members.
func holds(value []byte) bool {
	if len(value) < 3 { // "" {} []
		return false
	}
	switch value[0] {
	case '"':
		return true
	case '{', '[':
		i := skipSpace(value, 1)
		return value[i] != '}' && value[i] != ']'
	}
	return false
}

// carries reports whether one of the named members of an object holds anything.
func carries(object []byte, names ...string) bool {
	for _, name := range names {
		if holds(member(object, name)) {
			return true
		}
	}
	return false
}

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

func unquote(value []byte) []byte {
	if len(value) >= 2 && value[0] == '"' {
		return value[1 : len(value)-1]
	}
	return nil
}

// readKey reads `"key" :` and returns the index of the value.
func readKey(data []byte, i int) (key []byte, value int, ok bool) {
	if i >= len(data) || data[i] != '"' {
		return nil, 0, false
	}
	end := skipString(data, i)
	if end < 0 {
		return nil, 0, false
	}
	colon := skipSpace(data, end)
	if colon == len(data) || data[colon] != ':' {
		return nil, 0, false
	}
	return data[i+1 : end-1], skipSpace(data, colon+1), true
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// skipValue returns the index behind the value at i, or -1 if it is missing or does not end.
func skipValue(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		return skipNested(data, i)
	}
	start := i
	for i < len(data) && isLiteral(data[i]) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// isLiteral reports whether numbers, true, false and null may contain the byte.
func isLiteral(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}

// skipNested passes an object or array by counting brackets: depth costs no stack.
func skipNested(data []byte, i int) int {
	for depth := 0; i < len(data); {
		switch data[i] {
		case '"':
			i = skipString(data, i)
			if i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

const shortString = 16

// skipString passes the string whose opening quote is at i.
func skipString(data []byte, i int) int {
	from := i + 1
	// Keys and most values of a chunk are so short that a search costs more to start than to run.
	for i := from; i < from+shortString && i+8 <= len(data); i += 8 {
		if n := special(binary.LittleEndian.Uint64(data[i:])); n < 8 {
			if data[i+n] == '"' {
				return i + n + 1
			}
			break
		}
	}
	for {
		n := bytes.IndexByte(data[from:], '"')
		if n < 0 {
			return -1
		}
		end := from + n
		if !escaped(data[from:end]) {
			return end + 1
		}
		from = end + 1
	}
}

// special is the index of the first quote or backslash among eight bytes, 8 if there is none.
func special(text uint64) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote := text ^ ones*'"'
	backslash := text ^ ones*'\\'
	// The top bit is set of the first byte that is zero, and of none before it.
	return bits.TrailingZeros64(((quote-ones)&^quote|(backslash-ones)&^backslash)&tops) / 8
}

// escaped reports whether the byte after text is escaped: whether text ends in an odd number of
// backslashes.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// textsIn is how many bytes the strings of a JSON document have that are no keys; of anything else, how many it has.
func textsIn(data []byte) (bytes int64) {
	if len(data) == 0 || data[0] != '{' && data[0] != '[' {
		return int64(len(data))
	}
	for i := 0; i < len(data); {
		if data[i] != '"' {
			i++
			continue
		}
		end := skipString(data, i)
		if end < 0 {
			return bytes + int64(len(data)-i-1)
		}
		if next := skipSpace(data, end); next == len(data) || data[next] != ':' {
			bytes += int64(end - i - 2)
		}
		i = end
	}
	return bytes
}
