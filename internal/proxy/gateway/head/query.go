package head

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/text"
)

// A query is read once, and the upstream gets the result written anew.

// ReadQuery reads a query that is not empty.
func ReadQuery(raw string) (url.Values, *Error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &Error{"", "The query cannot be read: " + err.Error() + "."}
	}
	return values, nil
}

// CheckKeys accepts the known keys, each of them once. Another one might ask for more than the gateway
// checks. The key metadata stands for metadata[x], too.
func CheckKeys(values url.Values, known []string) *Error {
	for key, list := range values {
		name, _, _ := strings.Cut(key, "[")
		isKnown := slices.Contains(known, key) || name == "metadata" && slices.Contains(known, name)
		if !isKnown {
			return &Error{text.Brief(key), "The query key " + quoted(key) + " is not supported on this route."}
		}
		if len(list) > 1 && key != "include[]" && key != "include" {
			return &Error{text.Brief(key), "The query says " + quoted(key) + " twice."}
		}
	}
	return nil
}

// CheckPlain accepts plain keys that are not governed. Some servers read governed fields from the query,
// too, and some take model[], model.x or model followed by a zero byte for model.
func CheckPlain(values url.Values) *Error {
	for key := range values {
		if name, read := governedKey(key); read != nil {
			return &Error{name, "The query says " + quoted(key) + ". Say it in the body."}
		}
		if !isPlain(key) {
			return &Error{"", "The query key " + quoted(key) + " must consist of letters, digits, - and _."}
		}
	}
	return nil
}

// quoted shows a text from outside in a message.
func quoted(s string) string { return strconv.Quote(text.Brief(s)) }

// isPlain reports whether a key has letters, digits, - and _ only, so that every server reads it alike.
func isPlain(key string) bool {
	for i := 0; i < len(key); i++ {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return key != ""
}
