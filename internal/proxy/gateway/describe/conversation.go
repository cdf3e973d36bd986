package describe

import (
	"net/http"

	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
)

// sessionHeaders are those in which callers name the conversation of a call, as net/http spells them; the first that is
// there counts.
var sessionHeaders = []string{
	"X-Llmgov-Session",
	"X-Claude-Code-Session-Id",
	"Session-Id", "Session_id", "Conversation_id", // Codex, newer and older
	"X-Session-Affinity", "X-Opencode-Session", // opencode
	"X-Session-Id", // opencode, and other agents
}

// Conversation identifies the conversation of a call by the session that its caller names or, if byMessages, by its first
// messages; 0 is not known.
func Conversation(h http.Header, of head.Conversation, byMessages bool) uint64 {
	for _, name := range sessionHeaders {
		if session := first(h, name); session != "" {
			return head.HashName([]byte(session))
		}
	}
	switch {
	case of.Named != 0:
		return of.Named
	case byMessages:
		return of.Begun
	}
	return 0
}
