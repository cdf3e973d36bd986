package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
)

// errRefusedEvent is an event that ended its session.
var errRefusedEvent = errors.New("an event was refused")

// checkEvent refuses what a client may not say: to go on with another model than the one
// that it was let in with, and to refer to what is not its own.
func (c *call) checkEvent(kind websocket.MessageType, text []byte) *refusal {
	if kind == websocket.MessageBinary {
		// Sound, unless some reader takes it for JSON, in whatever encoding.
		start := bytes.TrimLeft(text, " \t\r\n\x00\xef\xbb\xbf\xfe\xff")
		if len(start) == 0 || start[0] != '{' {
			return nil
		}
	}
	if err := wellFormed(text); err != nil {
		return invalid("", "An event must be one JSON object: "+err.what)
	}
	if !gjson.ParseBytes(text).IsObject() {
		return invalid("", "An event must be a JSON object.")
	}
	var f *refusal
	w := walk{body: text}
	w.member = func(key, value string, depth int) {
		if f == nil {
			f = c.checkMember(key, value, depth)
		}
	}
	if err := w.run(); err != nil {
		return invalid(err.param, err.what)
	}
	for _, ref := range w.found {
		if f == nil && ref.key != "id" && !c.sees(c.pool.upstream.name, ref.id) { // items are of the session
			f = noObject(ref.key, ref.id)
		}
	}
	return f
}

// checkMember checks a member of an event. Depth 1 is the event itself, 2 its session or
// response; what is deeper has models of its own, such as for transcription.
func (c *call) checkMember(key, value string, depth int) *refusal {
	switch {
	case strings.EqualFold(key, "model"):
		if value == c.head.model || depth > 2 && (value == "{" || c.tenant.MayUse(value)) {
			return nil
		}
		if depth > 2 {
			return &refusal{status: http.StatusForbidden, code: codeModel, param: "model", message: "Tenant " + c.tenant.Name + " may not use the model " + quoted(brief(value)) + "."}
		}
		return invalid("model", "This session was opened for the model "+quoted(c.head.model)+", and stays with it. Open another one for "+quoted(brief(value))+".")
	case strings.EqualFold(key, "conversation") && value != "auto" && value != "none":
		return invalid("conversation", "conversation must be auto or none.")
	}
	return nil
}

// realtimeEvent is the refusal as an event of the session.
func (f *refusal) realtimeEvent() []byte {
	b, err := json.Marshal(map[string]any{
		"type": "error", "event_id": "event_llmgov",
		"error": map[string]any{"type": codeInvalid, "code": f.code, "message": f.message, "param": f.param, "event_id": nil},
	})
	if err != nil {
		panic("llmgov: BUG: an error cannot be encoded: " + err.Error())
	}
	return b
}

// meter reads an event of the upstream. It reports whether it is the last of a response.
func (s *session) meter(text []byte) (done bool) {
	kind := gjson.GetBytes(text, "type").Str
	s.mu.Lock()
	first := false
	switch {
	case kind == "response.created":
		s.active++
	case strings.HasPrefix(kind, "response.") && strings.HasSuffix(kind, ".delta"):
		s.deltas++
		first = !s.spoke
		s.spoke = true
	case kind == "response.done":
		s.doneLocked(gjson.GetBytes(text, "response.usage"))
		done = true
	case kind == "conversation.item.input_audio_transcription.completed":
		s.usage = sum(s.usage, realtimeUsage(gjson.GetBytes(text, "usage")))
	}
	output := s.usage.Output
	s.mu.Unlock()
	if first {
		s.c.firstDelta()
	}
	if done {
		s.c.lease.Progress(output)
	}
	return done
}

// rest notes that a response has ended, and that the client has all of it.
func (s *session) rest() {
	s.mu.Lock()
	s.active = max(0, s.active-1)
	s.mu.Unlock()
	select {
	case s.rested <- struct{}{}:
	default:
	}
}

func (s *session) doneLocked(usage gjson.Result) {
	if usage.IsObject() {
		s.usage = sum(s.usage, realtimeUsage(usage))
	} else {
		s.usage.Output += s.c.outputOf(s.deltas)
	}
	s.deltas = 0
}

func (s *session) atRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active == 0
}

// realtimeUsage reads the usage of one response or transcription. Usage by duration has
// no tokens.
func realtimeUsage(v gjson.Result) governor.Usage {
	return governor.Usage{
		Input:       max(0, v.Get("input_tokens").Int()),
		CachedInput: max(0, v.Get("input_token_details.cached_tokens").Int()),
		Output:      max(0, v.Get("output_tokens").Int()),
		Reasoning:   max(0, v.Get("output_token_details.reasoning_tokens").Int()),
		Audio:       max(0, v.Get("input_token_details.audio_tokens").Int()) + max(0, v.Get("output_token_details.audio_tokens").Int()),
	}
}

func sum(a, b governor.Usage) governor.Usage {
	return governor.Usage{
		Input: a.Input + b.Input, CachedInput: a.CachedInput + b.CachedInput, Output: a.Output + b.Output,
		Reasoning: a.Reasoning + b.Reasoning, Audio: a.Audio + b.Audio,
	}
}
