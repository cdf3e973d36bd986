package realtime

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// upstreamSide meters the messages of the upstream, and passes them on.
type upstreamSide struct {
	call     Call
	terms    *Terms
	line     *line
	book     *book
	turns    *turns
	rest     *rest
	greeted  chan struct{} // closed when the first event has come
	greeting bool          // the answer to greet has not come
}

// pass reads them.
func (u *upstreamSide) pass(ctx context.Context) error {
	for first := true; ; first = false {
		kind, text, err := u.line.upstream.Read(ctx)
		if err != nil {
			return err
		}
		u.line.alive()
		u.call.Hide(text)
		said := gjson.GetBytes(text, "type").Str
		if first {
			err = u.begin(ctx, said, text)
		}
		if err != nil {
			return err
		}
		if u.isAnswer(said, text) {
			continue
		}
		f := u.meter(ctx, said, text)
		if err := u.line.toClient(ctx, kind, text); err != nil {
			return err
		}
		if said == "response.done" {
			u.rest.done()
		}
		if f == nil {
			continue
		}
		if err := u.stop(ctx, said, text, f); err != nil {
			return err
		}
	}
}

// begin takes in the first event.
func (u *upstreamSide) begin(ctx context.Context, kind string, text []byte) error {
	if kind == "session.created" {
		if err := u.greet(ctx, text); err != nil {
			return err
		}
	}
	close(u.greeted)
	return nil
}

// sessionEvent is the id of the event by which the gateway takes a session over.
const sessionEvent = ownEvent + "session"

// greet takes over the session that the upstream has created: it bounds its responses, and leaves it to
// the gateway to ask for them. It is called before the client can say anything.
func (u *upstreamSide) greet(ctx context.Context, text []byte) error {
	created := gjson.GetBytes(text, "session")
	beta := created.Get(betaBoundKey).Exists() || created.Get("turn_detection").Exists()
	bound := boundKey
	detection := created.Get("audio.input.turn_detection")
	if beta {
		bound = betaBoundKey
		detection = created.Get("turn_detection")
	}
	u.book.setBoundName(bound)
	var members []string
	if most := u.terms.MaxOutput; most > 0 {
		members = append(members, `"`+bound+`":`+strconv.FormatInt(most, 10))
	}
	if instead, responds := head.LeaveDetection(detection.Raw); responds {
		u.turns.respond(true)
		member := `"turn_detection":` + string(instead)
		if !beta {
			member = `"audio":{"input":{` + member + `}}`
		}
		members = append(members, member)
	}
	if len(members) == 0 {
		return nil
	}
	if !beta {
		members = append(members, `"type":"realtime"`)
	}
	u.greeting = true
	return u.line.instruct(ctx, head.EventUpdate, sessionEvent, `"session":{`+strings.Join(members, ",")+`}`)
}

// isAnswer reports whether an event answers one of the gateway's own, and is not for the client.
func (u *upstreamSide) isAnswer(kind string, text []byte) bool {
	if kind == "session.updated" {
		u.turns.updated(text)
		greeting := u.greeting
		u.greeting = false
		return greeting
	}
	if kind != "error" {
		return false
	}
	id := gjson.GetBytes(text, "error.event_id").Str
	if !strings.HasPrefix(id, ownEvent) {
		return false
	}
	u.greeting = u.greeting && id != sessionEvent
	u.book.notBegun(id)
	u.call.Rejected(id, gjson.GetBytes(text, "error.message").Str)
	return true
}

// meter takes in an event of the upstream. It returns a refusal if the event began a response for which
// the limits have no room.
func (u *upstreamSide) meter(ctx context.Context, kind string, text []byte) *ask.Refusal {
	get := func(path string) gjson.Result { return gjson.GetBytes(text, path) }
	switch {
	case strings.HasSuffix(kind, "session.created"), strings.HasSuffix(kind, "session.updated"): // of transcriptions, too
		u.book.configured(get("session"))
	case kind == "response.created":
		u.rest.begin()
		return u.book.begun(ctx, get("response.id").Str)
	case strings.HasPrefix(kind, "response.") && strings.HasSuffix(kind, ".delta"):
		u.book.delta(get("response_id").Str)
	case kind == "response.done":
		u.book.done(readEnd(get("response")))
	case kind == "conversation.item.input_audio_transcription.completed":
		u.book.took(readUsage(get("usage")), false)
		return u.book.spent()
	case kind == "input_audio_buffer.speech_stopped":
		u.turns.speechStopped()
	case kind == "input_audio_buffer.committed":
		u.turns.committed()
	case kind == "error":
		u.book.notBegun(get("error.event_id").Str)
	}
	return nil
}

// stop cancels a response for which there is no room, and tells the client.
func (u *upstreamSide) stop(ctx context.Context, kind string, text []byte, f *ask.Refusal) error {
	if kind == "response.created" {
		member := ""
		if id := gjson.GetBytes(text, "response.id").Str; id != "" {
			member = `"response_id":` + string(gjson.AppendJSONString(nil, id))
		}
		if err := u.line.instruct(ctx, "response.cancel", ownEvent+"cancel", member); err != nil {
			return err
		}
	}
	return u.line.refuse(ctx, f)
}
