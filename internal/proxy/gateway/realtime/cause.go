package realtime

import (
	"errors"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// side is the side from which a session was ended.
type side int

const (
	ofClient side = iota
	ofUpstream
	ofGateway
)

// cause is why a session ends.
type cause struct {
	from side
	err  error
}

var (
	errIdle       = errors.New("nothing was said for too long")
	errPanicked   = errors.New("the gateway failed")
	errDrained    = errors.New("this gateway is shutting down")
	errEndedEarly = errors.New("this gateway had to end the session early")
)

// end is the end of a session for that cause, except for its usage.
func (c cause) end(call Call) End {
	code := websocket.CloseStatus(c.err)
	switch {
	case c.from == ofUpstream && errors.Is(c.err, errRefusedEvent):
		return End{Outcome: telemetry.Cancelled, Failure: c.err}
	case errors.Is(c.err, errDrained):
		return End{Outcome: telemetry.Failed, Reason: ask.CodeDraining}
	case errors.Is(c.err, errEndedEarly):
		_, cause := call.Cut()
		return End{Outcome: telemetry.Failed, Reason: ask.CodeStore, Failure: cause}
	case c.from == ofUpstream && code == -1:
		return End{Outcome: telemetry.Failed, Reason: "truncated", Failure: c.err, Broken: true}
	case c.from == ofClient && code == -1:
		return End{Outcome: telemetry.Cancelled, Failure: c.err}
	}
	return End{Outcome: telemetry.OK, Idle: errors.Is(c.err, errIdle)}
}

// words are the code and the reason with which both sides are closed. A reason of one side may contain the
// upstream's key.
func (c cause) words(call Call) (code websocket.StatusCode, reason string) {
	if ce, ok := errors.AsType[websocket.CloseError](c.err); ok {
		said := []byte(ce.Reason)
		call.Hide(said)
		return ce.Code, string(said)
	}
	switch {
	case errors.Is(c.err, errRefusedEvent):
		return websocket.StatusPolicyViolation, "see the error event"
	case c.from == ofGateway:
		return websocket.StatusGoingAway, c.err.Error()
	case c.from == ofUpstream:
		return websocket.StatusInternalError, "the upstream broke off"
	}
	return websocket.StatusGoingAway, ""
}
