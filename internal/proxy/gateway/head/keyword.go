package head

import "slices"

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
	freeKey    // of data of the caller's own, in which no key has a meaning,
	freeMapKey // or only in an object: lists under it are the provider's
	namesKey   // of a map by names of the caller's choice, whose values are the provider's
)

// opaque are the keys of data that the provider hands on and does not look into for ids: what tools are called with, the
// schemas of that, what templates are filled with, and notes of the caller.
var opaque = []string{
	"metadata", "attributes", "client_metadata", "labels", "trace", // notes
	"arguments", "env", "headers", // calls of tools; their input is part of an item, see finder.key
	"parameters", "input_schema", "output_schema", "input_examples", // tools
	"response_format", "format", "schema", "json_schema", "guided_json", "guided_choice", "structured_outputs", // forms of answers
	"chat_template_kwargs", "chat_template_args", "documents", "mm_processor_kwargs", "media_io_kwargs", "custom_params",
	"vllm_xargs", "nvext", "logit_bias",
}

var noKeyword = keyword{ref: none}

// skillRef is the index of skillID among referring.
var skillRef = int8(slices.Index(referring, skillID))

// keywords are the keys that mean something, by their names.
var keywords = func() map[string]keyword {
	all := map[string]keyword{
		"type": {kind: typeKey}, "id": {kind: idKey}, "input": {kind: inputKey}, "model": {kind: modelKey},
		"container": {kind: namedKey}, "audio": {kind: namedKey},
		"content": {kind: contentKey}, "encrypted_content": {kind: sealedKey},
		"annotations": {kind: freeMapKey}, // of a tool; those of a text are a list
		"variables":   {kind: namesKey}, "configs": {kind: namesKey}, "graders": {kind: namesKey},
	}
	for _, name := range opaque {
		all[name] = keyword{kind: freeKey}
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

// keywordFolds finds them.
var keywordFolds = func() (f folds[keyword]) {
	for name, word := range keywords {
		f.add(name, word)
	}
	return f
}()

// keywordOf is the meaning of a key, without its quotes and escapes.
func keywordOf(key string) keyword {
	found := keywordFolds.find(key)
	if found == nil {
		return noKeyword
	}
	word := found.means
	word.odd = key != found.name
	if word.odd && word.ref == none && word.kind >= contentKey { // nobody takes it for the name
		return noKeyword
	}
	return word
}
