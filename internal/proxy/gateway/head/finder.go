package head

import (
	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/lib/text"
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
	object  bool
	free    bool           // data of the caller's own, or within it
	ownKeys bool           // its keys are names of the caller's choice
	key     keyword        // of the member being read, or of the one whose value this array is
	at      jsonscan.Token // of the member's key
	seen    uint32         // referring keys that occurred, a bit each

	part     bool   // an element of a message's content
	item     bool   // an item of a response's input, where an id without a type is a reference
	typed    saying // it says what it is,
	content  saying // or has what only a message has
	sealed   saying // it brings its content along, encrypted
	looks    bool   // it is looked up by id,
	reasons  bool   // or is one of reasoning
	begin    int    // where in the finder's list its ids and skills begin
	provided bool   // its type says that its skills are the provider's own
}

// saying counts what an object says under a key: in so many words, and otherwise, by another value or in another case.
// Of two values readers take one or the other.
type saying struct{ plainly, otherwise int }

// add counts a value.
func (s *saying) add(plainly bool) {
	if plainly {
		s.plainly++
	} else {
		s.otherwise++
	}
}

// sure reports whether all readers take the object to say it.
func (s *saying) sure() bool { return s.plainly == 1 && s.otherwise == 0 }

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
	inner := frame{object: object, key: noKeyword, begin: len(f.names)}
	inner.free = top.free || top.object && (top.key.kind == freeKey || object && top.key.kind == freeMapKey)
	switch {
	case inner.free:
	case !object:
		inner.key = top.key // its texts are ids, and its elements are of that key
	case top.object:
		inner.looks = top.key.kind == namedKey
		inner.ownKeys = top.key.kind == namesKey
	default:
		inner.item = top.key.kind == inputKey
		inner.part = top.key.kind == contentKey
	}
	top.say(top.key.kind == contentKey)
	f.tell(top, "{")
	f.stack = append(f.stack, inner)
}

// tell shows a member to the caller of Walk.
func (f *finder) tell(top *frame, text string) {
	if f.member != nil && top.object && !top.free && !top.ownKeys && top.key.ref == none {
		f.member(f.copied(top.at), text, len(f.stack)-1)
	}
}

func (f *finder) close(top *frame) {
	names := f.names[top.begin:]
	if top.looked() {
		f.take(names, false, "id")
	}
	if !top.provided || !top.typed.sure() {
		f.take(names, true, skillID)
	}
	if f.problem != nil { // there were too many
		return
	}
	f.names = f.names[:top.begin]
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
	return f.looks || f.reasons && !f.sealed.sure() || f.item && !f.typed.sure() && !f.content.sure()
}

// say counts a value of the member being read, if that describes the object.
func (f *frame) say(plainly bool) {
	if !f.object {
		return
	}
	switch f.key.kind {
	case typeKey:
		f.typed.add(plainly && !f.key.odd)
	case contentKey:
		f.content.add(plainly)
	case sealedKey:
		f.sealed.add(plainly)
	}
}

// key begins a member of an object.
func (f *finder) key(top *frame, t jsonscan.Token) *Error {
	name := f.says(t)
	top.at = t
	top.key = keywordOf(name)
	switch {
	case top.free, top.ownKeys:
		top.key = noKeyword
		return nil
	case top.key.kind == inputKey && !top.key.odd && (top.part || top.item):
		top.key.kind = freeMapKey // a tool was called with it
	}
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
	top.say(top.key.kind != sealedKey || t.End-t.Start > len(`""`))
	switch top.key.kind {
	case typeKey:
		top.isOf(f.says(t))
	case idKey:
		f.names = append(f.names, named{t, false})
	case modelKey:
		f.deeper = f.deeper || len(f.stack) > 2
	}
}

// isOf notes the type of an object.
func (f *frame) isOf(kind string) {
	f.provided = kind == providers
	if kind == reasoning {
		f.reasons = true
	} else if looked[kind] {
		f.looks = true
	}
}

// scalar reads a number, true, false or null.
func (f *finder) scalar(top *frame, t jsonscan.Token) *Error {
	top.say(false)
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
