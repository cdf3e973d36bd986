package realtime

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// guard checks the messages of a client.
type guard struct {
	call  Call
	model string // for which the session was opened
}

// check reads an event of the client, whichever kind of frame it came in. It refuses
// events that servers read differently, that continue with another model than the one that was admitted, or
// that refer to objects of others.
func (g guard) check(event []byte) (*head.Event, *ask.Refusal) {
	if f := g.call.Revoked(); f != nil {
		return nil, f
	}
	e, err := head.ReadEvent(event)
	if err != nil {
		return nil, invalid(err.Param, err.Message)
	}
	return e, g.checkMembers(event)
}

// checkMembers checks the models and objects that an event names, wherever they stand in it.
func (g guard) checkMembers(event []byte) *ask.Refusal {
	var f *ask.Refusal
	found, err := head.Walk(event, func(key, value string, depth int) {
		if f == nil {
			f = g.checkMember(key, value, depth)
		}
	})
	if err != nil {
		return invalid(err.Param, err.Message)
	}
	for _, ref := range found {
		if f == nil && ref.Key != "id" { // items belong to the session
			f = g.call.CheckReference(ref)
		}
	}
	return f
}

// checkMember checks a member of an event. Depth 1 is the event itself, 2 its session or response. Deeper
// ones have models of their own, for example for transcription.
func (g guard) checkMember(key, value string, depth int) *ask.Refusal {
	switch {
	case strings.EqualFold(key, "model"):
		if value == g.model || depth > 2 && value == "{" {
			return nil
		}
		if depth > 2 {
			return g.call.CheckModel(value)
		}
		return invalid("model", "This session was opened for the model "+strconv.Quote(g.model)+", and stays with it. Open another one for "+strconv.Quote(text.Brief(value))+".")
	case strings.EqualFold(key, "conversation") && value != "auto" && value != "none":
		return invalid("conversation", "conversation must be auto or none.")
	}
	return nil
}

func invalid(param, message string) *ask.Refusal {
	return &ask.Refusal{Status: http.StatusBadRequest, Code: ask.CodeInvalid, Param: param, Message: message}
}
