package realtime

import (
	"sync"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
)

// turns are those of the user. A server that detects voice activity begins a response when the user stops
// speaking, without being asked. So that such a response, too, is held before it begins, the gateway tells
// the server to detect turns but to create no responses, and asks for one itself after each turn. Servers
// that know no create_response begin them nevertheless; these are cancelled if there is no room: see
// book.begun.
type turns struct {
	due chan struct{} // receives when the user has stopped speaking, and a response is due

	mu       sync.Mutex
	responds bool // guarded by mu, as all below: there is a response after each turn of the user
	left     bool // the upstream leaves that to the gateway
	stopped  bool // the user has stopped speaking, and the audio is not committed yet
}

func newTurns() *turns { return &turns{due: make(chan struct{}, mostOpen)} }

// take takes over how the session is to detect turns, if an event of the client says so.
func (t *turns) take(e *head.Event) {
	if responds, known := e.LeaveTurns(); known {
		t.respond(responds)
	}
}

// respond notes whether the gateway is to respond to turns.
func (t *turns) respond(responds bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.responds = responds
}

// updated notes whether the upstream has left it to the gateway to respond to turns. One that knows no
// create_response responds by itself, and would be asked a second time.
func (t *turns) updated(event []byte) {
	left := false
	for _, path := range []string{"session.turn_detection.create_response", "session.audio.input.turn_detection.create_response"} {
		left = left || gjson.GetBytes(event, path).Type == gjson.False
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = left
}

// speechStopped notes that the user has stopped speaking.
func (t *turns) speechStopped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

// committed notes that the user's turn is over. Audio that the client commits by itself is no turn.
func (t *turns) committed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := t.stopped
	t.stopped = false
	if !over || !t.responds || !t.left {
		return
	}
	select {
	case t.due <- struct{}{}:
	default: // more turns are waiting than a session may have responses
	}
}
