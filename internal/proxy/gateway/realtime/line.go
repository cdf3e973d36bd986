package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/streaming"
)

// line is the connection between a client and an upstream.
type line struct {
	client   *websocket.Conn
	upstream *websocket.Conn
	idle     *time.Timer // ends the session
	patience time.Duration
}

// errRefusedEvent is an event that ended its session.
var errRefusedEvent = errors.New("an event was refused")

// ownEvent begins the ids of events that the gateway sends to the upstream by itself. Errors about
// them are not for the client.
const ownEvent = "llmgov_"

// alive notes that something was said.
func (l *line) alive() { l.idle.Reset(l.patience) }

// toClient sends a message to the client.
func (l *line) toClient(ctx context.Context, kind websocket.MessageType, text []byte) error {
	return l.write(ctx, l.client, kind, text)
}

// toUpstream sends a message to the upstream.
func (l *line) toUpstream(ctx context.Context, kind websocket.MessageType, text []byte) error {
	return l.write(ctx, l.upstream, kind, text)
}

// write bounds how long to wait for a side that reads nothing.
func (l *line) write(ctx context.Context, to *websocket.Conn, kind websocket.MessageType, text []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.patience, streaming.ErrIdle)
	defer cancel()
	return to.Write(ctx, kind, text)
}

// instruct sends an event of the gateway's own to the upstream.
func (l *line) instruct(ctx context.Context, kind, id, member string) error {
	text := `{"type":"` + kind + `","event_id":"` + id + `"`
	if member != "" {
		text += "," + member
	}
	return l.toUpstream(ctx, websocket.MessageText, []byte(text+"}"))
}

// refuse tells the client why something is not done. After a spent budget the session ends.
func (l *line) refuse(ctx context.Context, f *ask.Refusal) error {
	err := l.toClient(ctx, websocket.MessageText, errorEvent(f))
	if err == nil && f.Code == ask.CodeBudget {
		return errRefusedEvent
	}
	return err
}

// errorEvent is a refusal as an event.
func errorEvent(f *ask.Refusal) []byte {
	kind := ask.CodeInvalid
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
