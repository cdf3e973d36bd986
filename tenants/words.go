package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// words are all words that a value may be.
type words[T ~string] struct {
	one  string // of them, with its article
	list []T
}

// names are the words as files spell them.
func (w words[T]) names() []string {
	var names []string
	for _, word := range w.list {
		names = append(names, string(word))
	}
	return names
}

// kind is the schema of such a value.
func (w words[T]) kind() kind { return strictyaml.WordKind(w.names()...) }

// check complains about a word that is none of them.
func (w words[T]) check(word T) string {
	if slices.Contains(w.list, word) {
		return ""
	}
	return "is not " + w.one + "; " + strictyaml.AdviseWord(string(word), w.names())
}

// read reads one of the words; anything else reads as fallback.
func (w words[T]) read(v value, fallback T) T {
	text, ok := v.Scalar()
	if !ok {
		return fallback
	}
	if complaint := w.check(T(text)); complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return fallback
	}
	return T(text)
}

// verify reports a word, made in code, that is none of them.
func (w words[T]) verify(r *report, path string, word T) {
	if complaint := w.check(word); complaint != "" {
		r.At(path, "%s %s", strictyaml.Show(string(word)), complaint)
	}
}
