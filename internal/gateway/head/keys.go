package head

import "slices"

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
