package streaming

import (
	"slices"
	"strings"
)

// dialect is how a family of servers writes the events of a stream. Nobody tells a Meter which one a server
// speaks: their names do not collide, so each event is compared with all of them. A further dialect is a
// further value in dialects.
//
// The structure of chat and completions chunks, which have no type, is in choices.go; the counts in a usage
// object and their names are in object.go, for all dialects.
type dialect struct {
	name      string
	ends      []string // types of the events that end an answer properly, with nothing after them
	failures  []string // types of the events that report an error
	breaks    []string // those of them after which nothing follows
	prompts   []string // types of the events whose usage tells of the prompt alone
	envelopes []string // members of an event in which the usage stands, if it is not at the top
	parts     []part
	varying   []string // keys, at any depth, whose values differ from part to part and mean nothing else
}

// part is a type of events that carry a part of the answer if a member of them does.
type part struct {
	event  string   // the type; after a star only the end of it
	member string   // of the event; "" if each such event is a part
	keys   []string // of that member, one of which carries the part; none if it is the member itself

	// Set by merge:
	at   int    // the index of the member among those of all dialects; -1 for none
	open bool   // the event begins with a star,
	end  string // and this is behind it
}

// endOfStream is the data that ends a chat or completions stream.
const endOfStream = "[DONE]"

var dialects = []dialect{
	{
		name:    "chat",
		varying: []string{"content", "reasoning_content", "reasoning", "refusal", "arguments", "text", "obfuscation", "created"},
	},
	{
		name:      "responses",
		ends:      []string{"response.completed", "response.incomplete", "response.cancelled"},
		failures:  []string{"error", "response.failed"},
		breaks:    []string{"response.failed"},
		envelopes: []string{"response"},
		parts: []part{
			{event: "*.delta", member: "delta"},
			{event: "*.delta", member: "audio"},
		},
		varying: []string{"delta", "sequence_number"},
	},
	{
		name:      "Anthropic",
		ends:      []string{"message_stop"},
		failures:  []string{"error"},
		prompts:   []string{"message_start"},
		envelopes: []string{"message"},
		parts: []part{
			// A signature is not a part of the answer.
			{event: "content_block_delta", member: "delta", keys: []string{"text", "thinking", "partial_json", "content"}},
			// Redacted thinking comes whole in its data, and a tool has a name.
			{event: "content_block_start", member: "content_block", keys: []string{"text", "thinking", "data", "name"}},
		},
		varying: []string{"thinking", "partial_json"},
	},
	{
		name: "images and audio",
		ends: []string{"transcript.text.done", "speech.audio.done", "image_generation.completed", "image_edit.completed"},
		parts: []part{
			{event: "*.partial_image"},
		},
	},
}

// role is the meaning of an event by its type alone.
type role uint8

const (
	ends role = 1 << iota
	fails
	breaks
	ofPrompt
	ranTool
	endsItem
)

// maxMembers is how many members of events the dialects may name.
const maxMembers = 8

// vocabulary is all dialects together.
type vocabulary struct {
	roles     map[string]role
	parts     []part
	members   []string // that parts and envelopes name; a chunk keeps them by their index
	envelopes []int    // of members
	item      int      // of members
	varying   []string
}

var words = merge(dialects)

func merge(list []dialect) *vocabulary {
	v := &vocabulary{roles: map[string]role{}}
	for _, d := range list {
		v.addRole(d.ends, ends)
		v.addRole(d.failures, fails)
		v.addRole(d.breaks, breaks)
		v.addRole(d.prompts, ofPrompt)
		for _, name := range d.envelopes {
			v.envelopes = append(v.envelopes, v.addMember(name))
		}
		for _, p := range d.parts {
			p.at = v.addMember(p.member)
			p.end, p.open = strings.CutPrefix(p.event, "*")
			v.parts = append(v.parts, p)
		}
		v.varying = append(v.varying, d.varying...)
	}
	for _, tool := range tools {
		v.roles[toolBegin+tool+toolEnd] |= ranTool
	}
	v.addRole([]string{itemEnd}, endsItem)
	v.item = v.addMember("item")
	if len(v.members) > maxMembers {
		panic("streaming: BUG: the dialects name too many members")
	}
	return v
}

func (v *vocabulary) addRole(events []string, r role) {
	for _, event := range events {
		v.roles[event] |= r
	}
}

// addMember returns the index of a member; -1 for none.
func (v *vocabulary) addMember(name string) int {
	if name == "" {
		return -1
	}
	i := slices.Index(v.members, name)
	if i < 0 {
		i = len(v.members)
		v.members = append(v.members, name)
	}
	return i
}

// member is the index of a member that counts, or -1. There are few, and most differ in length, so that
// this is quicker than a map.
func (v *vocabulary) member(key []byte) int {
	for i, name := range v.members {
		if string(key) == name {
			return i
		}
	}
	return -1
}

// isEnvelope reports whether the usage may stand in a member.
func (v *vocabulary) isEnvelope(key []byte) bool {
	return slices.Contains(v.envelopes, v.member(key))
}

// varies reports whether the values of a key, at any depth, differ from part to part and mean
// nothing to a Meter but that they are there.
func (v *vocabulary) varies(key []byte) bool {
	for _, name := range v.varying {
		if string(key) == name {
			return true
		}
	}
	return false
}

// isPart reports whether a typed event carries a part of the answer.
func (v *vocabulary) isPart(ch *chunk) bool {
	if len(ch.kind) == 0 {
		return false
	}
	for i := range v.parts {
		if p := &v.parts[i]; p.is(ch.kind) && p.carried(ch) {
			return true
		}
	}
	return false
}

// isLargePart reports whether an event of which only the type is known carries a part of the answer: if all
// of a family of types are parts.
func (v *vocabulary) isLargePart(kind []byte) bool {
	for i := range v.parts {
		if p := &v.parts[i]; p.open && p.is(kind) {
			return true
		}
	}
	return false
}

// is reports whether events of a type may be such parts.
func (p *part) is(kind []byte) bool {
	if p.open {
		return len(kind) >= len(p.end) && string(kind[len(kind)-len(p.end):]) == p.end
	}
	return string(kind) == p.event
}

// carried reports whether an event of that type carries a part.
func (p *part) carried(ch *chunk) bool {
	switch {
	case p.at < 0:
		return true
	case p.keys == nil:
		return holds(ch.members[p.at])
	}
	return carries(ch.members[p.at], p.keys...)
}
