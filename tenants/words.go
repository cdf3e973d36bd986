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

// complain is the mistake of a text that is none of them.
func (w words[T]) complain(text string) string {
	return "is not " + w.one + "; " + strictyaml.AdviseWord(text, w.names())
}

// read reads one of the words; anything else reads as fallback.
func (w words[T]) read(v value, fallback T) T {
	text, ok := v.Scalar()
	if !ok {
		return fallback
	}
	if i := slices.Index(w.names(), text); i >= 0 {
		return w.list[i]
	}
	v.Problem("%s %s", v.Say(text), w.complain(text))
	return fallback
}

// verify reports a word, made in code, that is none of them.
func (w words[T]) verify(r *report, path string, word T) {
	if !slices.Contains(w.list, word) {
		text := fmt.Sprintf("%v", word)
		if _, named := any(word).(fmt.Stringer); named {
			text = fmt.Sprintf("%d", any(word)) // it has no name
		}
		r.At(path, "%s %s", strictyaml.Show(text), w.complain(text))
	}
}
