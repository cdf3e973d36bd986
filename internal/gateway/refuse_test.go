package gateway

import (
	"net/http/httptest"
	"testing"

	"github.com/llmgov/llmgov/internal/admission"
)

func TestRefusal_Event(t *testing.T) {
	f := refusal{Status: 502, Code: admission.CodeUpstream, Message: "It broke off."}
	const detail = `{"message":"It broke off.","type":"upstream_error","param":null,"code":"upstream_error"}`
	for _, tt := range []struct {
		name string
		d    dialect
		want string
	}{
		{"openai", openAI, `data: {"error":` + detail + "}\n\n"},
		{"responses", openAIResponses, "event: error\n" +
			`data: {"type":"error","sequence_number":0,"code":"upstream_error","message":"It broke off.","param":null,"error":` + detail + "}\n\n"},
		{"anthropic", anthropic, "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":"It broke off.","code":"upstream_error"}}` + "\n\n"},
	} {
		if got := string(errorEvent(&f, tt.d)); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// Each SDK finds the id of a refusal where it looks for it.
func TestRefusal_RequestID(t *testing.T) {
	for d, want := range map[dialect]string{openAI: "", openAIResponses: "", anthropic: "req_1"} {
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "req_1")
		f := refusal{Status: 429, Code: admission.CodeRate, Message: "Later."}
		writeRefusal(w, &f, d)
		if got := w.Header().Get("Request-Id"); got != want {
			t.Errorf("dialect %d: request-id %q, want %q", d, got, want)
		}
	}
}
