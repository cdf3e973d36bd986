package http1

import (
	"net/http"
	"net/textproto"
	"strings"
)

// Headers are those of a head whose lines are read one by one. Their values are in one piece of memory, so a copy must not be added to.
type Headers struct {
	All    http.Header
	values []string
}

// MakeHeaders returns none, with room for those of these lines.
func MakeHeaders(lines string) Headers {
	n := strings.Count(lines, "\r\n") + 1
	return Headers{All: make(http.Header, n), values: make([]string, 0, n)}
}

// Add adds a header. It reports false, and has added nothing, if there is one of that name.
func (h *Headers) Add(name, value string) bool {
	if h.All[name] != nil {
		return false
	}
	at := len(h.values)
	h.values = append(h.values, value)
	h.All[name] = h.values[at : at+1 : at+1]
	return true
}

// CutHeader cuts the first line off those of a head, which are
//
//	Name: value CR LF Name: value
//
// and returns its name, as net/http writes it, its value, and the lines behind it. It reports false unless the line is plain:
//
//   - the name consists of letters, digits, hyphens and underscores,
//   - one colon and one space follow it,
//   - and the value consists of visible characters with spaces between them, and is not empty.
func CutHeader(lines string) (name, value, rest string, ok bool) {
	n, canonical := nameIn(lines)
	name = lines[:n]
	rest = lines[n:]
	if n == 0 || !strings.HasPrefix(rest, ": ") {
		return "", "", "", false
	}
	if !canonical {
		name = textproto.CanonicalMIMEHeaderKey(name)
	}
	rest = rest[len(": "):]
	n = visibleIn(rest)
	value = rest[:n]
	rest = rest[n:]
	if n == 0 || value[0] == ' ' || value[n-1] == ' ' {
		return "", "", "", false
	}
	rest, ended := strings.CutPrefix(rest, "\r\n")
	if !ended && rest != "" {
		return "", "", "", false
	}
	return name, value, rest, true
}

// nameIn returns the length of the name that a line begins with, and whether net/http writes it so: each of its words, between hyphens, with
// a capital.
func nameIn(line string) (n int, canonical bool) {
	canonical = true
	first := true // of a word
	for n < len(line) {
		switch c := line[n]; {
		case 'a' <= c && c <= 'z':
			canonical = canonical && !first
		case 'A' <= c && c <= 'Z':
			canonical = canonical && first
		case c != '-' && c != '_' && (c < '0' || c > '9'):
			return n, canonical
		}
		first = line[n] == '-'
		n++
	}
	return n, canonical
}

// visibleIn returns how many visible characters and spaces a text begins with.
func visibleIn(text string) int {
	n := 0
	for n < len(text) && ' ' <= text[n] && text[n] <= '~' {
		n++
	}
	return n
}
