package head

import "strings"

// folds finds out which of some names a reader that ignores case takes a key for.
type folds[V any] struct {
	all      []fold[V]
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
	f.all = append(f.all, one)
	f.byLength[len(name)] = append(f.byLength[len(name)], one)
}

// find returns the name that a key is taken for, or nil.
func (f *folds[V]) find(key string) *fold[V] {
	if len(key) > longestFold {
		return nil
	}
	names := f.byLength[len(key)]
	if !isASCII(key) { // which may be another case of a name of another length
		names = f.all
	}
	for i := range names {
		if strings.EqualFold(names[i].name, key) {
			return &names[i]
		}
	}
	return nil
}
