package head

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/lib/text"
)

// maxDepth is how deeply brackets may nest.
const maxDepth = jsonscan.MaxDepth

// A second reader of bodies, with which Read is compared. It walks a body several times, with gjson, and
// unescapes all that it passes.

// reread reads the governed fields of a JSON body, strictly. It does not keep body.
func reread(body []byte) (*Head, *Error) {
	if err := rereadWellFormed(body); err != nil {
		return nil, err
	}
	h := &Head{}
	if err := rereadHead(h, body); err != nil {
		return nil, err
	}
	h.Prompt = tokens.Measure(body)
	return h, nil
}

// rereadHead reads the governed fields of a JSON body that is well formed.
func rereadHead(h *Head, body []byte) *Error {
	// gjson wants a string; the body is not changed while the strings live, and
	// none of them is kept but the model, which is copied.
	root := gjson.Parse(unsafe.String(unsafe.SliceData(body), len(body)))
	if !root.IsObject() {
		return bad("", "The body must be a JSON object.")
	}
	h.Copies = 1
	h.prompts = 1
	h.empty = true
	h.open = bytes.IndexByte(body, '{') + 1
	var problem *Error
	var seen [16]string
	names := seen[:0]
	root.ForEach(func(key, value gjson.Result) bool {
		h.empty = false
		name, read := governedKey(key.Str)
		if read == nil {
			return true
		}
		names, problem = oneOf(names, key.Str, name)
		if problem == nil && name == "prompt" {
			problem = rereadPrompt(h, value)
		} else if problem == nil {
			problem = read(h, value)
		}
		return problem == nil
	})
	if problem != nil {
		return problem
	}
	h.Copies *= h.prompts
	if h.Copies > maxCopies {
		return bad("n", "The call asks for %d answers, more than %d.", h.Copies, maxCopies)
	}
	return nil
}

// rereadPrompt counts the prompts of a completions call: each element of an array of texts or of
// token lists gets an answer of its own.
func rereadPrompt(h *Head, v gjson.Result) *Error {
	if !v.IsArray() {
		return nil
	}
	n := int64(0)
	v.ForEach(func(_, item gjson.Result) bool {
		if item.Type == gjson.Number { // one prompt, as tokens
			n = 1
			return false
		}
		n++
		return true
	})
	h.prompts = max(1, n)
	return nil
}

// rereadWellFormed refuses bodies that JSON readers would read differently, or cannot bear.
func rereadWellFormed(body []byte) *Error {
	if !utf8.Valid(body) {
		return bad("", "The body is not valid UTF-8.")
	}
	if bytes.Count(body, []byte{'['})+bytes.Count(body, []byte{'{'}) > maxDepth && depth(body) > maxDepth {
		return bad("", "The body nests deeper than %d levels.", maxDepth)
	}
	if !gjson.ValidBytes(body) {
		return bad("", "The body is not valid JSON.")
	}
	return nil
}

// reframe is an object or array that is being read.
type reframe struct {
	object bool
	free   bool   // a map of the caller's own, or within one
	key    string // of the member being read; "" before it
	ref    int    // index of that key among referring, or of the key whose value this array is
	seen   uint32 // referring keys that occurred, a bit each

	part    bool     // an element of a message's content
	ownKeys bool     // its keys are the caller's names
	item    bool     // an item of a response's input, where an id without a type is a reference
	looks   bool     // it is looked up by id,
	reasons bool     // or is one of reasoning
	ids     []string // all that it may call its id
	skills  []string // ids of skills
	// said has all that it says under some keys, "" for what does not count.
	said map[string][]string
}

// says is what an object says under a key; "" if it says nothing there, or several things.
func (f *reframe) says(key string) string {
	if len(f.said[key]) != 1 {
		return ""
	}
	return f.said[key][0]
}

// say notes what an object says under the key that is being read.
func (f *reframe) say(text string) {
	if !f.object || f.free {
		return
	}
	key := strings.ToLower(f.key)
	if key != f.key && key != "type" {
		return
	}
	if key != f.key {
		text = ""
	}
	if f.said == nil {
		f.said = map[string][]string{}
	}
	f.said[key] = append(f.said[key], text)
}

// rereadReferences lists the ids to which a JSON body refers. It reads the body once, from front to back,
// however deeply it nests. The body must be valid JSON.
func rereadReferences(body []byte) ([]Reference, *Error) { return rereadWalk(body, nil) }

// rereadWalk is rereadReferences, and calls member for each member of an object that is no reference, with its
// depth; 1 is the body itself. A value that is no string is passed as "{".
func rereadWalk(body []byte, member func(key, text string, depth int)) ([]Reference, *Error) {
	w := rewalk{body: body, member: member}
	if err := w.run(); err != nil {
		return nil, err
	}
	return w.found, nil
}

type rewalk struct {
	body  []byte
	stack []reframe
	found []Reference
	// member, if set, is called for each member that is no reference; see Walk.
	member func(key, text string, depth int)
}

// run reads the whole body.
func (w *rewalk) run() *Error {
	w.stack = make([]reframe, 1, 16)
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

func (w *rewalk) top() *reframe { return &w.stack[len(w.stack)-1] }

// step reads what begins at i, and returns where it ends.
func (w *rewalk) step(i int) (int, *Error) {
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

func (w *rewalk) open(object bool) {
	top := w.top()
	f := reframe{object: object, free: top.free || top.object && top.isFree(object), ref: none}
	switch {
	case f.free:
	case !object:
		// its texts are ids; its elements are of that key
		f.ref = top.ref
		f.key = top.key
	case top.object:
		f.looks = isNamed(top.key)
		f.ownKeys = top.key == "variables" || top.key == "configs" || top.key == "graders"
	default:
		f.item = strings.EqualFold(top.key, "input")
		f.part = top.key == "content"
	}
	if top.key == "content" {
		top.say("{")
	} else {
		top.say("")
	}
	w.tell(top, "{")
	w.stack = append(w.stack, f)
}

func (w *rewalk) tell(f *reframe, text string) {
	if w.member != nil && f.object && !f.free && !f.ownKeys && f.ref == none {
		w.member(f.key, text, len(w.stack)-1)
	}
}

func (w *rewalk) close() {
	f := w.top()
	if f.looked() {
		for _, id := range f.ids {
			w.found = append(w.found, Reference{"id", id})
		}
	}
	if f.says("type") != `"`+providers {
		for _, id := range f.skills {
			w.found = append(w.found, Reference{skillID, id})
		}
	}
	w.stack = w.stack[:len(w.stack)-1]
}

// looked reports whether the upstream looks up the object by the id that it has.
func (f *reframe) looked() bool {
	return f.looks || f.reasons && f.says("encrypted_content") == "" || f.item && f.says("type") == "" && f.says("content") == ""
}

// text reads a key, or a value that is a string.
func (w *rewalk) text(f *reframe, raw []byte) *Error {
	if f.object && f.key == "" {
		return f.member(unquoted(raw))
	}
	if w.member != nil {
		w.tell(f, unquoted(raw))
	}
	if f.key == "encrypted_content" && len(raw) == len(`""`) {
		f.say("")
	} else {
		f.say(`"` + unquoted(raw))
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
		f.reasons = f.reasons || kind == reasoning
		f.looks = f.looks || kind != reasoning && looked[kind]
	case strings.EqualFold(f.key, "id"):
		f.ids = append(f.ids, unquoted(raw))
	}
	return nil
}

// member begins a member of an object.
func (f *reframe) member(key string) *Error {
	f.key = key
	f.ref = none
	if key == "" {
		f.key = "\x00" // an empty key counts as read
	}
	if f.ownKeys {
		f.key = "\x00"
	}
	if f.free || f.ownKeys {
		return nil
	}
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

func (f *reframe) scalar(raw []byte) *Error {
	f.say("")
	if f.ref == none || f.free || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') { // no server takes true for an id
		return nil
	}
	return bad(referring[f.ref], "%s must be a text, not %s.", referring[f.ref], text.Brief(string(raw)))
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
	var text string
	_ = json.Unmarshal(raw, &text) // unlike gjson, it keeps what follows half a surrogate pair
	return text
}

// isNamed reports whether the object under a key names another object by its id.
func isNamed(key string) bool {
	return strings.EqualFold(key, "container") || strings.EqualFold(key, "audio")
}

// isFree reports whether what stands under the key that is being read is the caller's own.
func (f *reframe) isFree(object bool) bool {
	return slices.Contains(opaque, f.key) || object && (f.key == "annotations" || f.key == "input" && (f.part || f.item))
}
