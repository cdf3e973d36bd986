package head

import (
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/splice"
)

// readAudio reads the audio settings of a session.
func (e *Event) readAudio(v gjson.Result) *Error {
	return eachGoverned(v, func(name string, v gjson.Result) *Error {
		if name != "input" {
			return nil
		}
		return eachGoverned(v, func(name string, v gjson.Result) *Error {
			if name != "turn_detection" {
				return nil
			}
			return e.readTurns(v)
		})
	})
}

// readTurns reads how a session detects turns.
func (e *Event) readTurns(v gjson.Result) *Error {
	if v.Type != gjson.Null && !v.IsObject() {
		return bad("turn_detection", "turn_detection must be an object, not %s.", show(v))
	}
	t := turns{
		responds: v.IsObject(),
		at:       fieldAt(v),
		empty:    len(v.Map()) == 0,
	}
	problem := eachGoverned(v, func(name string, v gjson.Result) *Error {
		if name != "create_response" {
			return nil
		}
		if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
			return bad("create_response", "create_response must be true or false, not %s.", show(v))
		}
		t.create = fieldAt(v)
		t.responds = v.Type != gjson.False
		return nil
	})
	e.turns = append(e.turns, t)
	return problem
}

// LeaveTurns keeps the server from responding to turns by itself. It reports whether the server would
// respond by this event; known is false if the event does not say.
func (e *Event) LeaveTurns() (responds, known bool) {
	for _, t := range e.turns {
		responds = t.responds
		switch {
		case !t.responds:
		case t.create.present:
			e.edits = append(e.edits, splice.Edit{Start: t.create.start, End: t.create.end, Text: "false"})
		default:
			inside := t.at.start + 1
			e.edits = append(e.edits, splice.Edit{Start: inside, End: inside, Text: splice.Member("create_response", "false", t.empty)})
		}
	}
	return responds, len(e.turns) > 0
}

// LeaveDetection is LeaveTurns for the turn_detection that a server describes. It returns the one to ask
// for instead; false if the server does not respond by itself.
func LeaveDetection(detection string) (instead []byte, responds bool) {
	e := &Event{Text: []byte(detection)}
	if e.readTurns(gjson.Parse(detection)) != nil || !e.turns[0].responds {
		return nil, false
	}
	e.LeaveTurns()
	return e.Edited(), true
}
