package head

import (
	"bytes"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// What a body must be like before anything of it is read.

// maxDepth bounds how deeply a body may nest. JSON readers recurse, and Go cannot recover from a
// full stack.
const maxDepth = 1000

// wellFormed refuses bodies that JSON readers would read differently, or cannot bear.
func WellFormed(body []byte) *Error {
	if !utf8.Valid(body) {
		return bad("", "The body is not valid UTF-8.")
	}
	if bytes.Count(body, []byte{'['})+bytes.Count(body, []byte{'{'}) > maxDepth && depth(body) > maxDepth {
		return bad("", "The body nests deeper than %d levels.", maxDepth)
	}
	if !gjson.ValidBytes(body) {
		return bad("", "The body is not valid JSON.")
	}
	return nil
}

// depth is how deeply brackets nest outside of strings.
func depth(body []byte) int {
	deepest := 0
	now := 0
	inString := false
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case inString:
		case b == '[' || b == '{':
			now++
			if now > deepest {
				deepest = now
			}
		case b == ']' || b == '}':
			now--
		}
	}
	return deepest
}
