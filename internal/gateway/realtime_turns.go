package gateway

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/gateway/head"
)

// A server that detects voice activity begins a response when the user stops speaking, without being
// asked. So that such a response, too, is held before it begins, the gateway tells the server to detect
// turns but to create no responses, and asks for one itself after each turn. Servers that know no
// create_response begin them nevertheless; these are cancelled if there is no room: see begun.

const (
	// ownEvent begins the ids of events that the gateway sends to the upstream by itself. Errors about
	// them are not for the client.
	ownEvent = "llmgov_"
	ownTurn  = ownEvent + "turn"
	// greetPatience is how long a client's first event waits for the upstream to describe the session.
	greetPatience = 2 * time.Second
	boundKey      = "max_output_tokens"
	betaBoundKey  = "max_response_output_tokens"
)

// greet takes over the session that the upstream has created: it bounds its responses, and leaves it to
// the gateway to ask for them. It is called before the client can say anything.
func (s *session) greet(ctx context.Context, text []byte) error {
	created := gjson.GetBytes(text, "session")
	beta := created.Get(betaBoundKey).Exists() || created.Get("turn_detection").Exists()
	bound := boundKey
	input := created.Get("audio.input.turn_detection")
	if beta {
		bound = betaBoundKey
		input = created.Get("turn_detection")
	}
	s.mu.Lock()
	s.boundName = bound
	s.mu.Unlock()
	var members []string
	if most := s.c.tenant.MaxOutputTokens; most > 0 {
		members = append(members, `"`+bound+`":`+strconv.FormatInt(most, 10))
	}
	if instead, responds := head.LeaveDetection(input.Raw); responds {
		s.setResponds(true)
		turns := `"turn_detection":` + string(instead)
		if !beta {
			turns = `"audio":{"input":{` + turns + `}}`
		}
		members = append(members, turns)
	}
	if len(members) == 0 {
		return nil
	}
	if !beta {
		members = append(members, `"type":"realtime"`)
	}
	s.greeting = true
	return s.tell(ctx, "session.update", ownEvent+"session", `"session":{`+strings.Join(members, ",")+`}`)
}

// tell sends an event of the gateway's own to the upstream.
func (s *session) tell(ctx context.Context, kind, id, member string) error {
	text := `{"type":"` + kind + `","event_id":"` + id + `"`
	if member != "" {
		text += "," + member
	}
	return s.write(ctx, s.upstream, websocket.MessageText, []byte(text+"}"))
}

// noteSession notes whether the upstream has left it to the gateway to respond to turns. One that knows no
// create_response responds by itself, and would be asked a second time.
func (s *session) noteSession(text []byte) {
	left := false
	for _, path := range []string{"session.turn_detection.create_response", "session.audio.input.turn_detection.create_response"} {
		left = left || gjson.GetBytes(text, path).Type == gjson.False
	}
	s.mu.Lock()
	s.left = left
	s.mu.Unlock()
}

// forGateway reports whether an event of the upstream answers one of the gateway's own.
func (s *session) forGateway(kind string, text []byte) bool {
	if kind == "session.updated" {
		s.noteSession(text)
		greeting := s.greeting
		s.greeting = false
		return greeting
	}
	if kind != "error" {
		return false
	}
	id := gjson.GetBytes(text, "error.event_id").Str
	if !strings.HasPrefix(id, ownEvent) {
		return false
	}
	s.greeting = s.greeting && id != ownEvent+"session"
	s.notBegun(id)
	s.c.g.log.Debug("upstream refuses an event of the gateway", "request_id", s.c.id, "upstream", s.c.try.up.name, "event", id, "message", brief(gjson.GetBytes(text, "error.message").Str))
	return true
}

// cancel stops a response for which there is no room.
func (s *session) cancel(ctx context.Context, id string) error {
	member := ""
	if id != "" {
		member = `"response_id":` + string(gjson.AppendJSONString(nil, id))
	}
	return s.tell(ctx, "response.cancel", ownEvent+"cancel", member)
}

// noteTurns takes over how the session is to detect turns.
func (s *session) noteTurns(e *head.Event) {
	if responds, known := e.LeaveTurns(); known {
		s.setResponds(responds)
	}
}

// setResponds notes whether the gateway is to respond to turns.
func (s *session) setResponds(responds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.responds = responds
}

// noteTurn notes that the user's turn is over. Audio that the client commits by itself is no turn.
func (s *session) noteTurn(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == "input_audio_buffer.speech_stopped" {
		s.stopped = true
		return
	}
	over := s.stopped
	s.stopped = false
	if !over || !s.responds || !s.left {
		return
	}
	select {
	case s.turned <- struct{}{}:
	default: // more turns are waiting than a session may have responses
	}
}

// fromTurns asks for a response after each turn, when there is room for it.
func (s *session) fromTurns(ctx context.Context) error {
	for {
		select {
		case <-s.turned:
		case <-ctx.Done():
			return nil
		}
		f := s.ask(ctx, &head.Event{Text: []byte("{}"), Kind: head.EventCreate, ID: ownTurn})
		var err error
		if f == nil {
			err = s.tell(ctx, head.EventCreate, ownTurn, "")
		} else {
			err = s.refuse(ctx, f)
		}
		if err != nil {
			return err
		}
	}
}

// awaitGreeting waits until the upstream has described the session.
func (s *session) awaitGreeting(ctx context.Context) {
	timer := time.NewTimer(greetPatience)
	defer timer.Stop()
	select {
	case <-s.greeted:
	case <-timer.C:
	case <-ctx.Done():
	}
}
