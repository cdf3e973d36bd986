package head

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/text"
)

// Reference is an id to which a body refers, and the key under which it does.
type Reference struct{ Key, ID string }

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

// isNamed reports whether the object under a key names another object by its id.
func isNamed(key string) bool {
	return strings.EqualFold(key, "container") || strings.EqualFold(key, "audio")
}

// free are the keys of maps that are the caller's own, in which no key has a meaning.
var free = map[string]bool{"metadata": true, "attributes": true}

// MayRefer reports whether a body of chat or the like may refer to an object. To do so it has to
// contain "e_id", "r_id", "h_id", "t_id" or "ill_id", a container, audio or cached content, or escapes.
// Most bodies do not, and are not walked.
func MayRefer(body []byte) bool {
	if bytes.Contains(body, []byte(`\u`)) || mayName(body) {
		return true
	}
	for at := 0; ; at++ {
		i := bytes.IndexByte(body[at:], '_')
		if i < 0 {
			return false
		}
		at += i
		if at > 0 && at+2 < len(body) && body[at+1]|0x20 == 'i' && body[at+2]|0x20 == 'd' && mayOwnID(body[:at]) {
			return true
		}
	}
}

// mayOwnID reports whether a name that goes on with _id may be one of the referring keys.
func mayOwnID(name []byte) bool {
	switch name[len(name)-1] | 0x20 {
	case 'e', 'r', 'h', 't':
		return true
	case 'l':
		return endsIn(name, "ill") // and not call_id, which is everywhere
	}
	return false
}

// mayName reports whether a string ends in the name of a container, of audio or of cached content. It
// looks where strings end, since that is rarer than any letter.
func mayName(body []byte) bool {
	for at := 0; ; at++ {
		i := bytes.IndexByte(body[at:], '"')
		if i < 0 {
			return false
		}
		at += i
		if at == 0 {
			continue
		}
		switch body[at-1] | 0x20 {
		case 'r':
			if endsIn(body[:at], "container") {
				return true
			}
		case 'o':
			if endsIn(body[:at], "audio") {
				return true
			}
		case 't':
			if endsIn(body[:at], "cached_content") {
				return true
			}
		}
	}
}

// endsIn reports whether a text ends in a name, in whatever case.
func endsIn(text []byte, name string) bool {
	return len(text) >= len(name) && strings.EqualFold(string(text[len(text)-len(name):]), name)
}

// none is the index of no referring key.
const none = -1

// frame is an object or array that is being read.
type frame struct {
	object bool
	free   bool   // a map of the caller's own, or within one
	key    string // of the member being read; "" before it
	ref    int    // index of that key among referring, or of the key whose value this array is
	seen   uint32 // referring keys that occurred, a bit each

	item    bool     // an item of a response's input, where an id without a type is a reference
	typed   bool     // it says what it is,
	content bool     // or has what only a message has
	looks   bool     // it is looked up by id,
	reasons bool     // or is one of reasoning
	ids     []string // all that it may call its id
	// sealed counts the strings under encrypted_content, and opened its other values. An item with
	// exactly one string brings its content along.
	sealed, opened int

	skills []string // ids of skills
	// provided means that its type says that they are the provider's own, and custom that it says
	// something else.
	provided, custom bool
}

// References lists the ids to which a JSON body refers. It reads the body once, from front to back,
// however deeply it nests. The body must be valid JSON.
func References(body []byte) ([]Reference, *Error) { return Walk(body, nil) }

// Walk is References, and calls member for each member of an object that is no reference, with its
// depth; 1 is the body itself. A value that is no string is passed as "{".
func Walk(body []byte, member func(key, text string, depth int)) ([]Reference, *Error) {
	w := walk{body: body, member: member}
	if err := w.run(); err != nil {
		return nil, err
	}
	return w.found, nil
}

type walk struct {
	body  []byte
	stack []frame
	found []Reference
	// member, if set, is called for each member that is no reference; see Walk.
	member func(key, text string, depth int)
}

// run reads the whole body.
func (w *walk) run() *Error {
	w.stack = make([]frame, 1, 16)
	w.stack[0].ref = none
	for i := 0; i < len(w.body); {
		next, err := w.step(i)
		if err != nil {
			return err
		}
		i = next
	}
	return nil
}

func (w *walk) top() *frame { return &w.stack[len(w.stack)-1] }

// step reads what begins at i, and returns where it ends.
func (w *walk) step(i int) (int, *Error) {
	top := w.top()
	switch c := w.body[i]; c {
	case '{', '[':
		w.open(c == '{')
	case '}', ']':
		w.close()
	case ',':
		if top.object {
			top.key = ""
			top.ref = none
		}
	case '"':
		end := stringEnd(w.body, i)
		return end, w.text(top, w.body[i:end])
	case ' ', '\t', '\r', '\n', ':':
	default: // a number, true, false or null
		end := i + 1
		for end < len(w.body) && strings.IndexByte(",]} \t\r\n", w.body[end]) < 0 {
			end++
		}
		return end, top.scalar(w.body[i:end])
	}
	return i + 1, nil
}

func (w *walk) open(object bool) {
	top := w.top()
	f := frame{object: object, free: top.free || top.object && free[top.key], ref: none}
	switch {
	case f.free:
	case !object:
		// its texts are ids; its elements are of that key
		f.ref = top.ref
		f.key = top.key
	case top.object:
		f.looks = isNamed(top.key)
	default:
		f.item = strings.EqualFold(top.key, "input")
	}
	if top.object && top.key == "encrypted_content" {
		top.opened++
	}
	w.tell(top, "{")
	w.stack = append(w.stack, f)
}

func (w *walk) tell(f *frame, text string) {
	if w.member != nil && f.object && !f.free && f.ref == none {
		w.member(f.key, text, len(w.stack)-1)
	}
}

func (w *walk) close() {
	f := w.top()
	if f.looked() {
		for _, id := range f.ids {
			w.found = append(w.found, Reference{"id", id})
		}
	}
	if !f.provided || f.custom {
		for _, id := range f.skills {
			w.found = append(w.found, Reference{skillID, id})
		}
	}
	w.stack = w.stack[:len(w.stack)-1]
}

// looked reports whether the upstream looks up the object by the id that it has.
func (f *frame) looked() bool {
	return f.looks || f.reasons && (f.sealed != 1 || f.opened > 0) || f.item && !f.typed && !f.content
}

// text reads a key, or a value that is a string.
func (w *walk) text(f *frame, raw []byte) *Error {
	if f.object && f.key == "" {
		return f.member(unquoted(raw))
	}
	if w.member != nil {
		w.tell(f, unquoted(raw))
	}
	switch {
	case f.free:
	case f.object && f.ref != none && referring[f.ref] == skillID:
		f.skills = append(f.skills, unquoted(raw))
	case f.ref != none:
		w.found = append(w.found, Reference{referring[f.ref], unquoted(raw)})
	case !f.object:
	case strings.EqualFold(f.key, "type"):
		kind := unquoted(raw)
		f.typed = true
		f.provided = f.provided || kind == providers && f.key == "type"
		f.custom = f.custom || kind != providers
		f.reasons = f.reasons || kind == reasoning
		f.looks = f.looks || kind != reasoning && looked[kind]
	case strings.EqualFold(f.key, "id"):
		f.ids = append(f.ids, unquoted(raw))
	case f.key == "encrypted_content" && len(raw) > len(`""`):
		f.sealed++
	}
	return nil
}

// member begins a member of an object.
func (f *frame) member(key string) *Error {
	f.key = key
	f.ref = none
	if key == "" {
		f.key = "\x00" // an empty key counts as read
	}
	if f.free {
		return nil
	}
	f.content = f.content || key == "content"
	i := refersTo(key)
	switch {
	case i == none:
		return nil
	case key != referring[i]:
		return bad(referring[i], "The key %q differs from %q only by case, which servers read differently. Write %q.", key, referring[i], referring[i])
	case f.seen&(1<<i) != 0:
		return bad(key, "The key %q is there twice; which of its values counts is ambiguous.", key)
	}
	f.ref = i
	f.seen = f.seen | 1<<i
	return nil
}

func (f *frame) scalar(raw []byte) *Error {
	if f.object && f.key == "encrypted_content" {
		f.opened++
	}
	if f.ref == none || f.free || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') { // no server takes true for an id
		return nil
	}
	return bad(referring[f.ref], "%s must be a text, not %s.", referring[f.ref], text.Brief(string(raw)))
}

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

// stringEnd is the index behind the string that begins at i.
func stringEnd(body []byte, i int) int {
	for i++; ; {
		n := bytes.IndexAny(body[i:], `"\`)
		if n < 0 {
			return len(body)
		}
		i += n
		if body[i] == '"' {
			return i + 1
		}
		i = min(i+2, len(body))
	}
}

// unquoted is a copy of what a JSON string says.
func unquoted(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	return strings.Clone(gjson.ParseBytes(raw).Str)
}
