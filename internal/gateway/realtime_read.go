package gateway

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// The events of a client that decide about responses.
const (
	kindUpdate = "session.update"
	kindCreate = "response.create"
	kindAppend = "input_audio_buffer.append"
	kindCommit = "input_audio_buffer.commit"
)

// eventKeys are the keys of events, and of the sessions and responses in them, of which every JSON
// reader must see the same value.
var eventKeys = []string{
	"type", "event_id", "session", "response", "item", "audio", "model", "conversation", "input", "tools", "turn_detection", "create_response",
	"max_output_tokens", "max_response_output_tokens", "max_completion_tokens", "max_tokens",
}

// eventBounds are those of them that bound the length of responses. Beta clients use the second.
var eventBounds = eventKeys[len(eventKeys)-4:]

// clientEvent is what the gateway needs to know of an event, and how it is to be edited.
type clientEvent struct {
	text []byte
	kind string
	id   string
	// object is the session or response of the event.
	object field
	empty  bool // {}
	bounds []field
	turns  []turns
	open   int // just behind the event's {
	edits  []edit
}

// turns is how a session detects the turns of the user: by voice, unless it is off, and whether the
// server responds by itself.
type turns struct {
	off      bool
	responds bool
	at       field // of the object
	empty    bool  // {}
	create   field // the value of create_response
}

// passed is the event as the upstream is to get it.
func (e *clientEvent) passed() []byte { return splice(e.text, e.edits) }

// readEvent reads an event strictly. Its text has been checked to be a JSON object.
func readEvent(text []byte) (*clientEvent, *badRequest) {
	root := gjson.ParseBytes(text)
	e := &clientEvent{text: text, kind: root.Get("type").Str, id: root.Get("event_id").Str}
	e.open = bytes.IndexByte(text, '{') + 1
	problem := eachGoverned(root, func(name string, v gjson.Result) *badRequest {
		switch name {
		case "type":
			if v.Type != gjson.String {
				return bad("type", "type must be a string, not %s.", show(v))
			}
		case "session", "response":
			return e.readObject(name, v)
		}
		return nil
	})
	return e, problem
}

// readObject reads the session or response of an event.
func (e *clientEvent) readObject(name string, v gjson.Result) *badRequest {
	if v.Type != gjson.Null && !v.IsObject() {
		return bad(name, "%s must be an object, not %s.", name, show(v))
	}
	at := field{present: true, start: v.Index, end: v.Index + len(v.Raw)}
	counts := name == "session" && e.kind == kindUpdate || name == "response" && e.kind == kindCreate
	if counts {
		e.object = at
		e.empty = len(v.Map()) == 0
	}
	return eachGoverned(v, func(name string, v gjson.Result) *badRequest {
		switch {
		case slices.Contains(eventBounds, name):
			f, problem := readEventBound(name, v)
			if problem == nil && counts {
				e.bounds = append(e.bounds, f)
			}
			return problem
		case name == "turn_detection" && counts: // as beta clients write it
			return e.readTurns(v)
		case name == "audio" && counts:
			return e.readAudio(v)
		}
		return nil
	})
}

// readAudio reads the audio settings of a session.
func (e *clientEvent) readAudio(v gjson.Result) *badRequest {
	return eachGoverned(v, func(name string, v gjson.Result) *badRequest {
		if name != "input" {
			return nil
		}
		return eachGoverned(v, func(name string, v gjson.Result) *badRequest {
			if name != "turn_detection" {
				return nil
			}
			return e.readTurns(v)
		})
	})
}

// readTurns reads how a session detects turns.
func (e *clientEvent) readTurns(v gjson.Result) *badRequest {
	if v.Type != gjson.Null && !v.IsObject() {
		return bad("turn_detection", "turn_detection must be an object, not %s.", show(v))
	}
	t := turns{
		off: v.Type == gjson.Null, responds: v.IsObject(),
		at: field{present: true, start: v.Index, end: v.Index + len(v.Raw)}, empty: len(v.Map()) == 0,
	}
	problem := eachGoverned(v, func(name string, v gjson.Result) *badRequest {
		if name != "create_response" {
			return nil
		}
		if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
			return bad("create_response", "create_response must be true or false, not %s.", show(v))
		}
		t.create = field{present: true, start: v.Index, end: v.Index + len(v.Raw)}
		t.responds = v.Type != gjson.False
		return nil
	})
	e.turns = append(e.turns, t)
	return problem
}

// leaveToGateway keeps the server from responding to turns by itself.
func (e *clientEvent) leaveToGateway() {
	for _, t := range e.turns {
		switch {
		case !t.responds:
		case t.create.present:
			e.edits = append(e.edits, edit{t.create.start, t.create.end, "false"})
		default:
			inside := t.at.start + 1
			e.edits = append(e.edits, edit{inside, inside, member("create_response", "false", t.empty)})
		}
	}
}

// readEventBound reads a bound on the length of responses; "inf" and null are none.
func readEventBound(name string, v gjson.Result) (field, *badRequest) {
	f := field{present: true, start: v.Index, end: v.Index + len(v.Raw)}
	if v.Type == gjson.Null || v.Type == gjson.String && v.Str == "inf" {
		return f, nil
	}
	return readCount(name, v)
}

// eachGoverned calls read for each governed member of an object.
func eachGoverned(v gjson.Result, read func(name string, v gjson.Result) *badRequest) (problem *badRequest) {
	var seen []string
	v.ForEach(func(key, value gjson.Result) bool {
		name := eventKey(key.Str)
		if name == "" {
			return true
		}
		seen, problem = oneOf(seen, key.Str, name)
		if problem == nil {
			problem = read(name, value)
		}
		return problem == nil
	})
	return problem
}

// eventKey returns the governed key that a reader ignoring case would take key for, or "".
func eventKey(key string) string {
	if len(key) > 60 { // longer than any fold of one
		return ""
	}
	for _, name := range eventKeys {
		if strings.EqualFold(name, key) {
			return name
		}
	}
	return ""
}

// bound is the most tokens that a response may have by this event: the largest of what it says,
// because servers differ in the name that they obey. known is false if it says nothing.
func (e *clientEvent) bound() (most int64, known bool) {
	for _, f := range e.bounds {
		if f.value == 0 { // no bound
			return 0, true
		}
		most = max(most, f.value)
		known = true
	}
	return most, known
}

// clamp lowers every bound of the event to most.
func (e *clientEvent) clamp(most int64) {
	for i := range e.bounds {
		f := &e.bounds[i]
		if f.value == 0 || f.value > most {
			e.edits = append(e.edits, edit{f.start, f.end, strconv.FormatInt(most, 10)})
			f.value = most
		}
	}
}

// add adds a bound, under a name, to the response of an event that has none.
func (e *clientEvent) add(name string, bound int64) {
	text := strconv.FormatInt(bound, 10)
	at := edit{e.open, e.open, member("response", "{"+member(name, text, true)+"}", false)}
	if e.object.present && e.text[e.object.start] == '{' {
		inside := e.object.start + 1
		at = edit{inside, inside, member(name, text, e.empty)}
	} else if e.object.present { // null
		at = edit{e.object.start, e.object.end, "{" + member(name, text, true) + "}"}
	}
	e.edits = append(e.edits, at)
	e.bounds = append(e.bounds, field{present: true, value: bound})
}
