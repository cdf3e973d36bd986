package head

import (
	"github.com/llmgov/llmgov/internal/jsonscan"
	"github.com/llmgov/llmgov/internal/text"
)

// finder finds the ids to which a body refers, from its tokens. It allocates only for what it finds.
type finder struct {
	body    []byte
	stack   []frame
	found   []Reference
	problem *Error
	names   []named // of the open objects
	// deeper means that a member below the top level names a model by a string.
	deeper bool
	// member, if set, is called for each member that is no reference; see Walk.
	member  func(key, text string, depth int)
	scratch []byte
}

// named is a string that is the id of the object in which it stands, or of a skill.
type named struct {
	jsonscan.Token
	skill bool
}

// frame is an object or array that is being read.
type frame struct {
	object bool
	free   bool           // a map of the caller's own, or within one
	key    keyword        // of the member being read, or of the one whose value this array is
	at     jsonscan.Token // of the member's key
	seen   uint32         // referring keys that occurred, a bit each

	item    bool // an item of a response's input, where an id without a type is a reference
	typed   bool // it says what it is,
	content bool // or has what only a message has
	looks   bool // it is looked up by id,
	reasons bool // or is one of reasoning
	names   int  // where in the finder's list its ids and skills begin
	// sealed counts the strings under encrypted_content, and opened its other values. An item with
	// exactly one string brings its content along.
	sealed, opened int
	// provided means that its type says that its skills are the provider's own, and custom that it says
	// something else.
	provided, custom bool
}

// mostReferences bounds how many ids are kept of a body: more of them would take many times its size.
const mostReferences = 20_000

// full reports whether there are too many ids to keep another one, and drops them all if so.
func (f *finder) full() bool {
	if len(f.found) < mostReferences && len(f.names) < mostReferences {
		return false
	}
	f.problem = bad("", "The body names more than %d objects by their ids. Split it.", mostReferences)
	f.found = nil
	f.names = nil
	return true
}

// reset begins with another body.
func (f *finder) reset(body []byte) {
	f.body = body
	f.stack = append(f.stack[:0], frame{key: noKeyword})
	f.found = nil
	f.problem = nil
	f.names = f.names[:0]
	f.deeper = false
}

// token takes in the next token. Behind the first problem it does nothing.
func (f *finder) token(t jsonscan.Token) {
	if f.problem != nil {
		return
	}
	top := &f.stack[len(f.stack)-1]
	switch t.Kind {
	case jsonscan.ObjectStart, jsonscan.ArrayStart:
		f.open(top, t.Kind == jsonscan.ObjectStart)
	case jsonscan.ObjectEnd, jsonscan.ArrayEnd:
		f.close(top)
	case jsonscan.Key:
		f.problem = f.key(top, t)
	case jsonscan.String:
		f.text(top, t)
	default:
		f.problem = f.scalar(top, t)
	}
}

func (f *finder) open(top *frame, object bool) {
	inner := frame{object: object, key: noKeyword, names: len(f.names)}
	inner.free = top.free || top.object && top.key.kind == freeKey
	switch {
	case inner.free:
	case !object:
		inner.key = top.key // its texts are ids, and its elements are of that key
	case top.object:
		inner.looks = top.key.kind == namedKey
	default:
		inner.item = top.key.kind == inputKey
	}
	if top.object && top.key.kind == sealedKey {
		top.opened++
	}
	f.tell(top, "{")
	f.stack = append(f.stack, inner)
}

// tell shows a member to the caller of Walk.
func (f *finder) tell(top *frame, text string) {
	if f.member != nil && top.object && !top.free && top.key.ref == none {
		f.member(f.copied(top.at), text, len(f.stack)-1)
	}
}

func (f *finder) close(top *frame) {
	names := f.names[top.names:]
	if top.looked() {
		f.take(names, false, "id")
	}
	if !top.provided || top.custom {
		f.take(names, true, skillID)
	}
	if f.problem != nil { // there were too many
		return
	}
	f.names = f.names[:top.names]
	f.stack = f.stack[:len(f.stack)-1]
}

// take adds ids or skills to the references.
func (f *finder) take(names []named, skill bool, key string) {
	for _, name := range names {
		if name.skill == skill && !f.full() {
			f.found = append(f.found, Reference{key, f.copied(name.Token)})
		}
	}
}

// looked reports whether the upstream looks up the object by the id that it has.
func (f *frame) looked() bool {
	return f.looks || f.reasons && (f.sealed != 1 || f.opened > 0) || f.item && !f.typed && !f.content
}

// key begins a member of an object.
func (f *finder) key(top *frame, t jsonscan.Token) *Error {
	name := f.says(t)
	top.at = t
	top.key = keywordOf(name)
	if top.free {
		top.key = noKeyword
		return nil
	}
	top.content = top.content || top.key.kind == contentKey
	ref := top.key.ref
	switch {
	case ref == none:
		return nil
	case top.key.odd:
		return bad(referring[ref], "The key %q differs from %q only by case, which servers read differently. Write %q.", name, referring[ref], referring[ref])
	case top.seen&(1<<ref) != 0:
		return bad(referring[ref], "The key %q is there twice; which of its values counts is ambiguous.", name)
	}
	top.seen |= 1 << ref
	return nil
}

// text reads a value that is a string.
func (f *finder) text(top *frame, t jsonscan.Token) {
	if f.member != nil {
		f.tell(top, f.copied(t))
	}
	ref := top.key.ref
	switch {
	case top.free:
	case (ref != none || top.object && top.key.kind == idKey) && f.full():
	case top.object && ref == skillRef:
		f.names = append(f.names, named{t, true})
	case ref != none:
		f.found = append(f.found, Reference{referring[ref], f.copied(t)})
	case !top.object:
	default:
		f.describe(top, t)
	}
}

// describe notes what a string says of the object that it belongs to.
func (f *finder) describe(top *frame, t jsonscan.Token) {
	switch top.key.kind {
	case typeKey:
		top.isOf(f.says(t))
	case idKey:
		f.names = append(f.names, named{t, false})
	case sealedKey:
		if t.End-t.Start > len(`""`) {
			top.sealed++
		}
	case modelKey:
		f.deeper = f.deeper || len(f.stack) > 2
	}
}

// isOf notes the type of an object.
func (f *frame) isOf(kind string) {
	f.typed = true
	if kind != providers {
		f.custom = true
	} else if !f.key.odd {
		f.provided = true
	}
	if kind == reasoning {
		f.reasons = true
	} else if looked[kind] {
		f.looks = true
	}
}

// scalar reads a number, true, false or null.
func (f *finder) scalar(top *frame, t jsonscan.Token) *Error {
	if top.object && top.key.kind == sealedKey {
		top.opened++
	}
	if top.key.ref == none || t.Kind != jsonscan.Number { // no server takes true for an id
		return nil
	}
	name := referring[top.key.ref]
	return bad(name, "%s must be a text, not %s.", name, text.Brief(string(f.body[t.Start:t.End])))
}

// says is what a string says; see [says]. It is valid until the next call.
func (f *finder) says(t jsonscan.Token) string {
	return says(f.body[t.Start:t.End], t.Escaped, &f.scratch)
}

// copied is a copy of what a string says.
func (f *finder) copied(t jsonscan.Token) string {
	raw := f.body[t.Start:t.End]
	if !t.Escaped {
		return string(raw[1 : len(raw)-1])
	}
	return string(jsonscan.Unescape(nil, raw))
}
