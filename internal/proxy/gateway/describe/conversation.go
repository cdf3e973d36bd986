package describe

import (
	"net/http"

	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Conversation identifies the conversation of a call by the session that its caller names or, if byMessages, by its first
// messages; 0 is not known.
func Conversation(h http.Header, of head.Conversation, byMessages bool) uint64 {
	if session := ask.Header(h).Session(); session != "" {
		return head.HashName([]byte(session))
	}
	switch {
	case of.Named != 0:
		return of.Named
	case byMessages:
		return of.Begun
	}
	return 0
}
