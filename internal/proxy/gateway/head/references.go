package head

import "strings"

// referring are the keys whose values are ids of objects, wherever they occur. Such a key that
// occurs twice, or in another case, is refused, because servers read that differently.
var referring = []string{
	"file_id", "file_ids", "input_file_id", "training_file", "validation_file", "previous_response_id",
	"vector_store_id", "vector_store_ids", "batch_id", "container", "container_id", "part_ids",
	"cached_content", skillID,
}

// skillID is the key of a skill, which is of the whole account, unless it is one of the provider's own.
const skillID = "skill_id"

// providers is the type of skills that every account has.
const providers = "anthropic"

// looked are the types of items whose content the upstream looks up by their id. A reasoning item
// may bring its content along instead.
var looked = map[string]bool{"item_reference": true, "image_generation_call": true, reasoning: true}

const reasoning = "reasoning"

// LooksUp reports whether the upstream looks up the content of items of a type by their id.
func LooksUp(kind string) bool { return looked[kind] }

// none is the index of no referring key.
const none = -1

// refersTo returns the index of the referring key that a reader ignoring case takes key for.
func refersTo(key string) int {
	if len(key) > 60 { // longer than any fold of one
		return none
	}
	for i, name := range referring {
		if strings.EqualFold(name, key) {
			return i
		}
	}
	return none
}
