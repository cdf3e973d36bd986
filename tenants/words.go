package tenants

import (
	"fmt"
	"slices"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// words are all words that a value may be.
type words[T comparable] struct {
	one  string // of them, with its article
	list []T
}

// names are the words as files spell them.
func (w words[T]) names() []string {
	var names []string
	for _, word := range w.list {
		names = append(names, fmt.Sprint(word))
	}
	return names
}

// kind is the schema of such a value.
func (w words[T]) kind() kind { return strictyaml.WordKind(w.names()...) }

// parse is the word that a text is, or the complaint that it is none of them.
func (w words[T]) parse(text string) (word T, complaint string) {
	names := w.names()
	i := slices.Index(names, text)
	if i < 0 {
		return word, "is not " + w.one + "; " + strictyaml.AdviseWord(text, names)
	}
	return w.list[i], ""
}

// read reads one of the words; anything else reads as fallback.
func (w words[T]) read(v value, fallback T) T {
	text, ok := v.Scalar()
	if !ok {
		return fallback
	}
	word, complaint := w.parse(text)
	if complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return fallback
	}
	return word
}

// readAll reads a list of the words.
func (w words[T]) readAll(v value) (list []T) {
	items, _ := v.Items()
	for _, it := range items {
		list = append(list, w.read(it, *new(T)))
	}
	return list
}

// verify reports a word, made in code, that is none of them.
func (w words[T]) verify(r *report, path string, word T) {
	if !slices.Contains(w.list, word) {
		text := fmt.Sprintf("%v", word)
		if _, named := any(word).(fmt.Stringer); named {
			text = fmt.Sprintf("%d", any(word)) // it has no name
		}
		_, complaint := w.parse(text)
		r.At(path, "%s %s", strictyaml.Show(text), complaint)
	}
}
