package head

import (
	"bytes"
	"slices"
)

// keyword is what a key means wherever it stands.
type keyword struct {
	kind keyKind
	ref  int8 // its index among referring; none if it refers to nothing
	odd  bool // it differs from its name by case
}

type keyKind uint8

const (
	otherKey keyKind = iota
	typeKey
	idKey
	inputKey
	modelKey
	namedKey   // the object under it names another object by its id
	contentKey // only messages have it
	sealedKey  // the content of a reasoning item
	freeKey    // of a map of the caller's own, in which no key has a meaning
)

var noKeyword = keyword{ref: none}

// skillRef is the index of skillID among referring.
var skillRef = int8(slices.Index(referring, skillID))

// keywords are the keys that mean something, by their names.
var keywords = func() map[string]keyword {
	all := map[string]keyword{
		"type": {kind: typeKey}, "id": {kind: idKey}, "input": {kind: inputKey}, "model": {kind: modelKey},
		"container": {kind: namedKey}, "audio": {kind: namedKey},
		"content": {kind: contentKey}, "encrypted_content": {kind: sealedKey}, "metadata": {kind: freeKey}, "attributes": {kind: freeKey},
	}
	for name, word := range all {
		word.ref = none
		all[name] = word
	}
	for i, name := range referring {
		word := all[name] // container is both
		word.ref = int8(i)
		all[name] = word
	}
	return all
}()

// foldedKeywords are those that readers which ignore case take for others' names.
var foldedKeywords = func() (names [][]byte) {
	for name, word := range keywords {
		if word.ref != none || word.kind < contentKey {
			names = append(names, []byte(name))
		}
	}
	return names
}()

// keywordOf is the meaning of a key, without its quotes and escapes.
func keywordOf(key []byte) keyword {
	const longest = 60 // longer than any fold of one
	if len(key) > longest {
		return noKeyword
	}
	if word, ok := keywords[string(key)]; ok {
		return word
	}
	if isLower(key) {
		return noKeyword
	}
	for _, name := range foldedKeywords {
		if bytes.EqualFold(name, key) {
			word := keywords[string(name)]
			word.odd = true
			return word
		}
	}
	return noKeyword
}

// isLower reports whether a key is of ASCII alone, and has no letter in upper case.
func isLower(key []byte) bool {
	for _, c := range key {
		if c >= 0x80 || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}
