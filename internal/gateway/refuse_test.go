package gateway

import (
	"net/http/httptest"
	"testing"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
)

// Each SDK finds the id of a refusal where it looks for it.
func TestRefusal_RequestID(t *testing.T) {
	for d, want := range map[*dialect.Dialect]string{dialect.OpenAI: "", dialect.Responses: "", dialect.Anthropic: "req_1"} {
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "req_1")
		f := refusal{Status: 429, Code: admission.CodeRate, Message: "Later."}
		writeRefusal(w, &f, d, "")
		if got := w.Header().Get("Request-Id"); got != want {
			t.Errorf("%s: request-id %q, want %q", d.Name, got, want)
		}
	}
}
