package strictyaml

import (
	"maps"
	"regexp"
	"slices"
)

// Read hands the one document of a file to read. The error is of type Problems, all of them in the order of the file,
// unless it is nil.
func Read(f File, read func(Value)) error {
	r := NewReport()
	r.Places[""] = Place{File: f.Name, Line: 1, Col: 1}
	if doc := Parse(r, f); doc != nil {
		read(Root(r, doc))
	}
	return r.Err()
}

// Fields reads a mapping, key by key, and returns the values of the keys that were there. A key without a reader is a
// problem.
func (v Value) Fields(readers map[string]func(Value)) map[string]Value {
	there := map[string]Value{}
	list, _ := v.Pairs()
	for _, p := range list {
		read, known := readers[p.Key]
		if !known {
			p.unknown(slices.Collect(maps.Keys(readers)))
			continue
		}
		there[p.Key] = p.Value
		read(p.Value)
	}
	return there
}

// Each reads every entry of a list.
func (v Value) Each(read func(Value)) {
	list, _ := v.Items()
	for _, it := range list {
		read(it)
	}
}

// OneOf reads a word of a fixed set.
func OneOf[T any](v Value, into *T, words map[string]T) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	known, ok := words[text]
	if !ok {
		v.Problem("%s is none of the known words; %s", v.Say(text), Advise(text, slices.Collect(maps.Keys(words))))
		return
	}
	*into = known
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Name reads a word that can stand in a label and in the name of a file.
func (v Value) Name(into *string) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	if !nameForm.MatchString(text) {
		v.Problem("%s is not a name; write letters, digits, '.', '_' and '-', beginning with a letter or digit", v.Say(text))
		return
	}
	*into = text
}

// Texts reads a list of texts. A refused entry, or a refused list, reads as "".
func (v Value) Texts(read func(Value) string) []string {
	list, ok := v.Items()
	if !ok {
		return []string{""}
	}
	out := make([]string, len(list))
	for i, it := range list {
		out[i] = read(it)
	}
	return out
}
