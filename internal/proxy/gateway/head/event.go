package head

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/splice"
)

// The kinds of events of a client that decide about responses.
const (
	EventUpdate = "session.update"
	EventCreate = "response.create"
	EventAppend = "input_audio_buffer.append"
	EventCommit = "input_audio_buffer.commit"
)

// eventKeys are the keys of events, and of the sessions and responses in them, of which every JSON
// reader must see the same value.
var eventKeys = []string{
	"type", "event_id", "session", "response", "item", "audio", "model", "conversation", "input", "tools", "turn_detection", "create_response",
	"max_output_tokens", "max_response_output_tokens", "max_completion_tokens", "max_tokens",
}

// eventBounds are those of them that bound the length of responses. Beta clients use the second.
var eventBounds = eventKeys[len(eventKeys)-4:]

// Event is an event of a client in a realtime session, and how it is to be edited.
type Event struct {
	Text   []byte
	Kind   string
	ID     string
	Narrow bool // its session IsNarrow

	object field // the session or response of the event
	empty  bool  // that is {}
	bounds []field
	turns  []turns
	open   int // just behind the event's {
	edits  []splice.Edit
}

// turns is how a session detects the turns of the user, and whether the server responds to them by itself.
type turns struct {
	responds bool
	at       field // of the object
	empty    bool  // {}
	create   field // the value of create_response
}

// ReadEvent reads an event strictly, except for the references and models in it; see [Walk].
func ReadEvent(text []byte) (*Event, *Error) {
	if err := WellFormed(text); err != nil {
		return nil, &Error{"", "An event must be one JSON object: " + err.Message}
	}
	root := gjson.ParseBytes(text)
	if !root.IsObject() {
		return nil, &Error{"", "An event must be a JSON object."}
	}
	e := &Event{
		Text: text,
		Kind: root.Get("type").Str,
		ID:   root.Get("event_id").Str,
		open: bytes.IndexByte(text, '{') + 1,
	}
	return e, eachGoverned(root, e.read)
}

// read takes one member of the event over.
func (e *Event) read(name string, v gjson.Result) *Error {
	switch name {
	case "type":
		if v.Type != gjson.String {
			return bad("type", "type must be a string, not %s.", show(v))
		}
	case "session", "response":
		return e.readObject(name, v)
	}
	return nil
}

// readObject reads the session or response of an event.
func (e *Event) readObject(name string, v gjson.Result) *Error {
	if v.Type != gjson.Null && !v.IsObject() {
		return bad(name, "%s must be an object, not %s.", name, show(v))
	}
	counts := name == "session" && e.Kind == EventUpdate || name == "response" && e.Kind == EventCreate
	e.Narrow = e.Narrow || name == "session" && IsNarrow(v)
	if counts {
		e.object = fieldAt(v)
		e.empty = len(v.Map()) == 0
	}
	return eachGoverned(v, func(name string, v gjson.Result) *Error {
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

// readEventBound reads a bound on the length of responses; "inf", null and what is beyond maxCount are none.
func readEventBound(name string, v gjson.Result) (field, *Error) {
	if n, _ := number(v); v.Type == gjson.Null || v.Type == gjson.String && v.Str == "inf" || isBeyond(n) {
		return fieldAt(v), nil
	}
	return readCount(name, v)
}

// eachGoverned calls read for each governed member of an object.
func eachGoverned(v gjson.Result, read func(name string, v gjson.Result) *Error) (problem *Error) {
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

// Edited is the event as the upstream is to get it.
func (e *Event) Edited() []byte { return splice.Copy(e.Text, e.edits) }

// Bound is the most tokens that a response may have by this event: the largest of its bounds, because
// servers differ in the name that they obey; 0 is no bound. known is false if it says nothing.
func (e *Event) Bound() (most int64, known bool) {
	for _, f := range e.bounds {
		if f.value == 0 { // no bound
			return 0, true
		}
		most = max(most, f.value)
		known = true
	}
	return most, known
}

// Clamp lowers every bound of the event to most.
func (e *Event) Clamp(most int64) {
	for i := range e.bounds {
		f := &e.bounds[i]
		if f.value == 0 || f.value > most {
			e.edits = append(e.edits, splice.Edit{Start: f.start, End: f.end, Text: strconv.FormatInt(most, 10)})
			f.value = most
		}
	}
}

// AddBound adds a bound, under a name, to the response of an event that has none.
func (e *Event) AddBound(name string, bound int64) {
	text := strconv.FormatInt(bound, 10)
	at := splice.Edit{Start: e.open, End: e.open, Text: splice.Member("response", "{"+splice.Member(name, text, true)+"}", false)}
	if e.object.present && e.Text[e.object.start] == '{' {
		inside := e.object.start + 1
		at = splice.Edit{Start: inside, End: inside, Text: splice.Member(name, text, e.empty)}
	} else if e.object.present { // null
		at = splice.Edit{Start: e.object.start, End: e.object.end, Text: "{" + splice.Member(name, text, true) + "}"}
	}
	e.edits = append(e.edits, at)
	e.bounds = append(e.bounds, field{present: true, value: bound})
}
