package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// errRefusedEvent is an event that ended its session.
var errRefusedEvent = errors.New("an event was refused")

// checkEvent refuses what a client may not say: to continue with another model than the one that
// was admitted, and to refer to objects that are not its own.
func (c *call) checkEvent(kind websocket.MessageType, text []byte) *refusal {
	if kind == websocket.MessageBinary {
		// Audio, unless some reader takes it for JSON in some encoding.
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
		if f == nil && ref.key != "id" && !c.sees(c.try.up.name, ref.id) { // items belong to the session
			f = noObject(ref.key, ref.id)
		}
	}
	return f
}

// checkMember checks a member of an event. Depth 1 is the event itself, 2 its session or response.
// What is deeper has models of its own, for example for transcription.
func (c *call) checkMember(key, value string, depth int) *refusal {
	switch {
	case strings.EqualFold(key, "model"):
		if value == c.head.model || depth > 2 && (value == "{" || c.mayUse(value)) {
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

// realtimeEvent is the refusal as an event of a realtime session.
func (f *refusal) realtimeEvent() []byte {
	kind := codeInvalid
	if f.status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	b, err := json.Marshal(map[string]any{
		"type": "error", "event_id": "event_llmgov",
		"error": map[string]any{"type": kind, "code": f.code, "message": f.message, "param": f.param, "event_id": nil},
	})
	if err != nil {
		panic("llmgov: BUG: an error cannot be encoded: " + err.Error())
	}
	return b
}

// meter reads an event of the upstream. It reports whether the event ends a response.
func (s *session) meter(text []byte) (done bool) {
	kind := gjson.GetBytes(text, "type").Str
	s.mu.Lock()
	first := false
	switch {
	case kind == "response.created":
		s.active++
		s.asked = max(0, s.asked-1)
	case strings.HasPrefix(kind, "response.") && strings.HasSuffix(kind, ".delta"):
		s.deltas++
		first = !s.spoke
		s.spoke = true
	case kind == "response.done":
		s.doneLocked(gjson.GetBytes(text, "response.usage"))
		done = true
	case kind == "conversation.item.input_audio_transcription.completed":
		s.tookLocked(realtimeUsage(gjson.GetBytes(text, "usage")))
	}
	s.mu.Unlock()
	if first {
		s.c.firstDelta()
	}
	if done {
		s.c.lease.Progress(0)
	}
	return done
}

// tookLocked books what was used, now: at the end of the session the minutes to which it belongs
// would be over, and another minute would have to bear all of it.
func (s *session) tookLocked(u governor.Usage) {
	switch {
	case s.over:
	case s.c.charge(u):
		s.booked = s.booked.Plus(u)
	default: // the policy does not know the tenant any more, or the gateway drains
		s.usage = s.usage.Plus(u)
	}
}

// charge books a part of what a call takes while it goes on.
func (c *call) charge(u governor.Usage) bool {
	if u == noUsage {
		return true
	}
	return c.book(c.req, c.account, u)
}

// book charges something that was done already, whatever the limits say.
func (c *call) book(req governor.Request, account *telemetry.Account, u governor.Usage) bool {
	req.Input, req.Output, req.Forced = u.Input, u.Output, true
	lease, rej := c.g.gov.Acquire(context.WithoutCancel(c.r.Context()), req)
	if rej != nil {
		return false
	}
	lease.Charge(u)
	account.Took(u)
	return true
}

// noteSaid notes what an event of the client adds to the prompts of responses.
func (s *session) noteSaid(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch gjson.GetBytes(text, "type").Str {
	case "response.create":
		s.asked++
		s.said += tokens.Weigh(text)
	case "input_audio_buffer.append":
		s.said += int64(len(text)) * tokens.Scale / soundBytes
	default:
		s.said += tokens.Weigh(text)
	}
}

// soundBytes is the length of one token of audio in base64: a tenth of a second of 24,000 two-byte
// samples a second.
const soundBytes = 6400

// unfinishedLocked is what responses took whose usage nobody will tell.
func (s *session) unfinishedLocked() governor.Usage {
	u := governor.Usage{Output: s.c.outputOf(s.deltas)}
	if running := int64(s.active + s.asked); running > 0 {
		u.Input = running * (s.heard + s.c.estimates.prompts.Estimate(s.c.head.model, tokens.Size{tokens.Text: s.said}))
	}
	return u
}

// overLimit refuses a further response while what the earlier ones took exceeds a limit.
func (s *session) overLimit(text []byte) *refusal {
	if gjson.GetBytes(text, "type").Str != "response.create" || s.c.tenant.Shadow {
		return nil
	}
	left := s.c.g.gov.Standing(s.c.tenant.Name, s.c.pool.Name).Tokens
	if left.Limit == 0 || left.Remaining > 0 {
		return nil
	}
	return &refusal{
		status: http.StatusTooManyRequests, code: codeRate,
		message: "Rate limit reached on tokens per min (TPM): Limit " + strconv.FormatInt(left.Limit, 10) + ". All of it is free again in " + left.Reset.Round(time.Millisecond).String() + ".",
	}
}

// revoked refuses to go on with a key that could not open the session any more.
func (c *call) revoked() *refusal {
	t, k, ok := c.g.world.Load().snap.LookupHash(c.key.Hash)
	if ok && !k.Expired(time.Now()) && t.Name == c.tenant.Name && t.Routes.Has(c.route.grant) && t.MayUse(c.head.model) {
		return nil
	}
	return &refusal{status: http.StatusUnauthorized, code: codeKey, message: "The API key may not use this any more."}
}

// rest notes that a response has ended and the client has received all of it.
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
	u := governor.Usage{}
	if usage.IsObject() {
		u = realtimeUsage(usage)
		s.heard, s.said = u.Input+u.Output, 0 // the next prompt has both
	} else {
		u = s.unfinishedLocked()
	}
	s.tookLocked(u)
	s.deltas = 0
}

func (s *session) atRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active == 0
}

// realtimeUsage reads the usage of one response or transcription. Usage given as a duration has no
// tokens.
func realtimeUsage(v gjson.Result) governor.Usage {
	u, _ := streaming.ReadUsage([]byte(v.Raw))
	return governor.Usage(u)
}
