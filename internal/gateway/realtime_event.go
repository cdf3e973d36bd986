package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/streaming"
)

// errRefusedEvent is an event that ended its session.
var errRefusedEvent = errors.New("an event was refused")

// checkEvent reads an event of the client, whichever kind of frame it came in. It refuses what a client
// may not say: what servers read differently, to continue with another model than the one that
// was admitted, and to refer to objects that are not its own.
func (c *call) checkEvent(text []byte) (*head.Event, *refusal) {
	event, err := head.ReadEvent(text)
	if err != nil {
		return nil, unreadable(err)
	}
	return event, c.checkMembers(text)
}

// checkMembers checks the models and objects that an event names, wherever they stand in it.
func (c *call) checkMembers(text []byte) *refusal {
	var f *refusal
	found, err := head.Walk(text, func(key, value string, depth int) {
		if f == nil {
			f = c.checkMember(key, value, depth)
		}
	})
	if err != nil {
		return unreadable(err)
	}
	for _, ref := range found {
		if f == nil && ref.Key != "id" && !c.sees(c.try.up.name, ref.ID) { // items belong to the session
			f = noObject(ref.Key, ref.ID)
		}
	}
	return f
}

// checkMember checks a member of an event. Depth 1 is the event itself, 2 its session or response.
// What is deeper has models of its own, for example for transcription.
func (c *call) checkMember(key, value string, depth int) *refusal {
	switch {
	case strings.EqualFold(key, "model"):
		if value == c.head.Model || depth > 2 && (value == "{" || c.mayUse(value)) {
			return nil
		}
		if depth > 2 {
			return &refusal{Status: http.StatusForbidden, Code: admission.CodeModel, Param: "model", Message: "Tenant " + c.tenant.Name + " may not use the model " + quoted(brief(value)) + "."}
		}
		return invalid("model", "This session was opened for the model "+quoted(c.head.Model)+", and stays with it. Open another one for "+quoted(brief(value))+".")
	case strings.EqualFold(key, "conversation") && value != "auto" && value != "none":
		return invalid("conversation", "conversation must be auto or none.")
	}
	return nil
}

// realtimeError is a refusal as an event of a realtime session.
func realtimeError(f *refusal) []byte {
	kind := admission.CodeInvalid
	if f.Status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	b, err := json.Marshal(map[string]any{
		"type": "error", "event_id": "event_llmgov",
		"error": map[string]any{"type": kind, "code": f.Code, "message": f.Message, "param": f.Param, "event_id": nil},
	})
	if err != nil {
		panic("llmgov: BUG: an error cannot be encoded: " + err.Error())
	}
	return b
}

// revoked refuses to go on with a key that could not open the session any more.
func (c *call) revoked() *refusal {
	t, k, ok := c.g.world.Load().Snapshot.LookupHash(c.key.Hash)
	if ok && !k.Expired(time.Now()) && t.Name == c.tenant.Name && t.Routes.Has(c.route.grant) && t.MayUse(c.head.Model) {
		return nil
	}
	return &refusal{Status: http.StatusUnauthorized, Code: admission.CodeKey, Message: "The API key may not use this any more."}
}

// realtimeUsage reads the usage of one response or transcription. Usage given as a duration has no
// tokens.
func realtimeUsage(v gjson.Result) governor.Usage {
	u, _ := streaming.ReadUsage([]byte(v.Raw))
	return governor.Usage(u)
}
