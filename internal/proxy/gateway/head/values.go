package head

import (
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// How rules read the value of a governed member: as gjson has it, except that no number is converted and no text is
// unescaped before a rule asks for it by textOf. A value may be as long as the body.

// valueAt is a value that is well formed, and its place in the body.
func valueAt(raw string, at int) gjson.Result {
	return gjson.Result{Index: at, Type: typeOf(raw[0]), Raw: raw}
}

// typeOf is the type of a value that begins with a byte.
func typeOf(first byte) gjson.Type {
	switch first {
	case '"':
		return gjson.String
	case '{', '[':
		return gjson.JSON
	case 't':
		return gjson.True
	case 'f':
		return gjson.False
	case 'n':
		return gjson.Null
	}
	return gjson.Number
}

// longestText is as long as a name can be, with its quotes: one in which each byte is an escape.
const longestText = maxName*len(`\u0000`) + len(`""`)

// textOf is a copy of what a string says, or of its beginning, longer than maxName, if it is longer than any name. Of
// other values it is "".
func textOf(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	raw := bytesOf(v.Raw)
	if len(raw) > longestText {
		raw = beginning(raw)
	}
	var room [maxName]byte
	return string(jsonscan.Unescape(room[:0], raw))
}

// beginning is the beginning of a long string, with a byte in place of the quote at its end. It ends with no half of \\.
func beginning(raw []byte) []byte {
	end := 1
	for end < longestText {
		if raw[end] == '\\' {
			end++
		}
		end++
	}
	return raw[:end+1]
}

// each calls f for the members of an object, or the elements of an array, until it returns false. It
// notes how much it reads, by which tests see that the work stays in proportion to the body.
func (h *Head) each(v gjson.Result, f func(key, value gjson.Result) bool) {
	if v.Type != gjson.JSON {
		return
	}
	h.scanned += len(v.Raw)
	s := jsonscan.New(bytesOf(v.Raw))
	s.Next() // its bracket
	var key gjson.Result
	start := 0
	depth := 0
	for t := s.Next(); t.Kind > jsonscan.Invalid; t = s.Next() {
		if depth == 0 {
			start = t.Start
		}
		switch t.Kind {
		case jsonscan.ObjectStart, jsonscan.ArrayStart:
			depth++
		case jsonscan.ObjectEnd, jsonscan.ArrayEnd:
			depth--
		case jsonscan.Key:
			if depth == 0 {
				key.Str = says(bytesOf(v.Raw[t.Start:t.End]), t.Escaped, new([]byte))
			}
			continue
		}
		if depth == 0 && !f(key, valueAt(v.Raw[start:t.End], v.Index+start)) {
			return
		}
	}
}

// isEmpty reports whether a value is an object or an array with nothing in it.
func isEmpty(v gjson.Result) bool {
	return v.Type == gjson.JSON && strings.TrimSpace(v.Raw[1:len(v.Raw)-1]) == ""
}

// bytesOf is a text as bytes that are no copy, and must not be changed.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
