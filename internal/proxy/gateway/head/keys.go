package head

import (
	"slices"
	"unsafe"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// oneOf adds a governed key to those that were seen. It refuses a key that is there already, or differs
// from its name by case.
func oneOf(seen []string, key, name string) ([]string, *Error) {
	if name != key {
		return seen, bad(name, "The key %q differs from %q only by case, which servers read differently. Write %q.", key, name, name)
	}
	if slices.Contains(seen, name) {
		return seen, bad(name, "The key %q is there twice; which of its values counts is ambiguous.", name)
	}
	return append(seen, name), nil
}

// isASCII reports whether a text has no byte beyond ASCII.
func isASCII[T string | []byte](text T) bool {
	for i := 0; i < len(text); i++ {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// longestName bounds the texts that mean something here: a name in which each letter is an escape.
const longestName = 64 * len(`\u0000`)

// says is what a key or a string says, unless it is longer than any name: then it is returned as it stands.
func says(raw []byte, escaped bool, scratch *[]byte) string {
	if !escaped || len(raw) > longestName {
		return inPlace(raw[1 : len(raw)-1])
	}
	*scratch = jsonscan.Unescape((*scratch)[:0], raw)
	return inPlace(*scratch)
}

// inPlace is a text as a string that is no copy. The text is not changed while the string lives.
func inPlace(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }
