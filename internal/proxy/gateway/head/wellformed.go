package head

import (
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// WellFormed refuses bodies that JSON readers would read differently, or cannot bear.
func WellFormed(body []byte) *Error {
	s := jsonscan.New(body)
	t := s.Next()
	for t.Kind > jsonscan.Invalid {
		t = s.Next()
	}
	if t.Kind == jsonscan.Invalid {
		return malformed(body)
	}
	return nil
}

// malformed says why a body is not well formed.
func malformed(body []byte) *Error {
	switch {
	case !utf8.Valid(body):
		return bad("", "The body is not valid UTF-8.")
	case depth(body) > jsonscan.MaxDepth:
		return bad("", "The body nests deeper than %d levels.", jsonscan.MaxDepth)
	}
	return bad("", "The body is not valid JSON.")
}

// depth is how deeply brackets nest outside of strings, also if they do not match.
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
