package head

import "strings"

// folds finds out which of some names a reader that ignores case takes a key for.
type folds[V any] struct {
	byLength [longestFold + 1][]fold[V]
}

// fold is a name and what it means.
type fold[V any] struct {
	name  string
	means V
}

// longestFold is longer than any key that a reader could take for one of the names.
const longestFold = 60

// add adds a name.
func (f *folds[V]) add(name string, means V) {
	one := fold[V]{name, means}
	f.byLength[len(name)] = append(f.byLength[len(name)], one)
}

// find returns the name that a key is taken for, or nil. The names are ASCII.
func (f *folds[V]) find(key string) *fold[V] {
	if len(key) > longestFold {
		return nil
	}
	if !isASCII(key) {
		key = asASCII(key)
	}
	names := f.byLength[len(key)]
	for i := range names {
		if strings.EqualFold(names[i].name, key) {
			return &names[i]
		}
	}
	return nil
}

// asASCII replaces the runes beyond ASCII that are other cases of ASCII letters. Unicode has two.
func asASCII(key string) string {
	const longS, kelvin = "\u017f", "\u212a"
	key = strings.ReplaceAll(key, longS, "s")
	return strings.ReplaceAll(key, kelvin, "k")
}
