package mock

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
)

// session is one realtime session: a websocket on which both sides send events.
//
//	session.created
//	session.update            → session.updated, which may name another model
//	conversation.item.create  → conversation.item.created
//	input_audio_buffer.append → speech_started, speech_stopped, committed, and a response: see audioInput
//	input_audio_buffer.commit → committed; clear empties the buffer
//	response.create           → response.created, a delta a token, response.done with usage
//	response.cancel           → the response in course is done, cancelled
//
// A response is a call with limits, slot and pace. Its prompt is all text of the items so
// far, as of a chat message, and the audio that was committed; its length is
// response.max_output_tokens, else the session's, else that of Config. Events that come during a
// response are handled after it.
type session struct {
	s      *Server
	conn   *websocket.Conn
	model  string
	prompt int64
	length int64 // of responses, if the session bounds it
	audio  audioInput
	events chan gjson.Result
	later  []gjson.Result
}

func (s *Server) serveRealtime(w http.ResponseWriter, r *http.Request) {
	model := r.URL.Query().Get("model")
	if model == "" {
		e := badRequest("model", "you must provide a model parameter")
		s.writePlain(w, e.status, e.append(nil))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}, InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	conn.SetReadLimit(maxBody)
	ctx, cancel := context.WithCancel(r.Context())
	t := &session{s: s, conn: conn, model: model, events: make(chan gjson.Result)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		t.listen(ctx)
	}()
	defer func() {
		cancel()
		_ = conn.CloseNow()
		<-done
	}()
	t.run(ctx)
}

// listen reads the client's events until it leaves.
func (t *session) listen(ctx context.Context) {
	for {
		_, text, err := t.conn.Read(ctx)
		if err != nil {
			return
		}
		select {
		case t.events <- gjson.ParseBytes(text):
		case <-ctx.Done():
			return
		}
	}
}

func (t *session) run(ctx context.Context) {
	t.say(ctx, map[string]any{"type": "session.created", "session": t.session()})
	for {
		for len(t.later) > 0 && ctx.Err() == nil {
			ev := t.later[0]
			t.later = t.later[1:]
			t.handle(ctx, ev)
		}
		select {
		case ev := <-t.events:
			t.handle(ctx, ev)
		case <-ctx.Done():
			return
		}
	}
}

func (t *session) session() map[string]any {
	length := any("inf")
	if t.length > 0 {
		length = t.length
	}
	input := map[string]any{"turn_detection": t.audio.session()}
	return map[string]any{
		"type": "realtime", "object": "realtime.session", "id": "sess_mock", "model": t.model,
		"max_output_tokens": length, "audio": map[string]any{"input": input},
	}
}

func (t *session) say(ctx context.Context, v map[string]any) bool {
	text, _ := json.Marshal(v) // strings, numbers, and maps of these
	return t.conn.Write(ctx, websocket.MessageText, text) == nil
}

func (t *session) handle(ctx context.Context, ev gjson.Result) {
	switch ev.Get("type").Str {
	case "session.update":
		if m := ev.Get("session.model"); m.Exists() {
			t.model = m.Str
		}
		if n := lengthIn(ev.Get("session")); n > 0 {
			t.length = n
		}
		t.audio.configure(ev.Get("session"))
		t.say(ctx, map[string]any{"type": "session.updated", "session": t.session()})
	case "conversation.item.create":
		item := ev.Get("item")
		item.Get("content.#.text").ForEach(func(_, text gjson.Result) bool {
			t.prompt += int64((len(text.Str) + 3) / 4)
			return true
		})
		t.say(ctx, map[string]any{"type": "conversation.item.created", "item": item.Value()})
	case "response.create":
		t.respond(ctx, ev)
	case "input_audio_buffer.append":
		t.append(ctx, ev.Get("audio").Str)
	case "input_audio_buffer.commit":
		t.commit(ctx)
	case "input_audio_buffer.clear":
		t.audio.heard = 0
		t.audio.speaking = false
		t.say(ctx, map[string]any{"type": "input_audio_buffer.cleared"})
	case "response.cancel": // of nothing
	case "mock.close": // a server that ends the session
		_ = t.conn.Close(websocket.StatusCode(ev.Get("code").Int()), ev.Get("reason").Str)
	default:
		t.refuse(ctx, "invalid_value", "Invalid value: '"+ev.Get("type").Str+"'.")
	}
}

func (t *session) refuse(ctx context.Context, code, message string) {
	t.say(ctx, map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "code": code, "message": message}})
}

func (t *session) respond(ctx context.Context, ev gjson.Result) {
	seq := t.s.seq.Add(1)
	length := int64(t.s.cfg.OutputTokens)
	for _, n := range []int64{t.length, lengthIn(ev.Get("response"))} {
		if n > 0 {
			length = n
		}
	}
	b := &t.s.books
	tick := &ticket{prompt: t.prompt, bound: length}
	b.arrive()
	how := cancelled
	defer func() { b.end(tick, how) }()
	if v := b.admit(tick); !v.ok {
		how = refused
		t.refuse(ctx, "rate_limit_exceeded", v.err(t.model).message)
		return
	}
	if !b.acquire(ctx, tick) {
		return
	}
	id := string(t.s.appendID(nil, "resp_", seq))
	t.say(ctx, map[string]any{"type": "response.created", "response": map[string]any{"id": id, "object": "realtime.response", "status": "in_progress"}})
	status := t.produce(ctx, ev, tick, id, length)
	if status == "" {
		return
	}
	how = completed
	b.end(tick, how) // before its last event, so that a client that has read it finds it in Stats
	t.say(ctx, map[string]any{"type": "response.done", "response": map[string]any{
		"id": id, "object": "realtime.response", "status": status,
		"usage": map[string]any{
			"total_tokens": t.prompt + tick.produced, "input_tokens": t.prompt, "output_tokens": tick.produced,
			"input_token_details":  map[string]any{"cached_tokens": 0, "text_tokens": t.prompt, "audio_tokens": 0},
			"output_token_details": map[string]any{"text_tokens": tick.produced, "audio_tokens": 0},
		},
	}})
}

// produce sends the tokens of a response, and returns its final status, or "" if the client has
// left.
func (t *session) produce(ctx context.Context, ev gjson.Result, tick *ticket, id string, length int64) (status string) {
	p := pace{start: time.Now(), first: t.s.cfg.FirstToken, speed: t.s.cfg.TokensPerSecond}
	if ms := ev.Get("mock.token_ms"); ms.Num > 0 {
		p.speed = 1000 / ms.Num
	}
	defer p.stop()
	for i := range int(length) {
		select {
		case ev := <-t.events:
			if ev.Get("type").Str == "response.cancel" {
				return "cancelled"
			}
			t.later = append(t.later, ev)
		default:
		}
		if !p.wait(ctx, i) || !t.say(ctx, map[string]any{"type": "response.output_text.delta", "response_id": id, "delta": word(0, i)}) {
			return ""
		}
		t.s.books.produce(tick, 1)
	}
	return "completed"
}
