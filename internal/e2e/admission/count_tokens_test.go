package admission

import (
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

// To count tokens takes none: providers do it for nothing, and beside the limits on
// tokens. It is a request all the same.
//
// Catches: prompts that are counted before they are sent, and charged both times.
func TestCountingTokensTakesNone(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
		t.TPM = 1000
		t.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 1000, Per: tenants.Day}}
	})}, Pool: sockets.Pool(func(p *tenants.Pool) { p.TPM = 1000 })})
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("some words ", 50_000) + `"}]}`
	for range 3 {
		if status, text := s.SendAs("acme", "POST", "/v1/messages/count_tokens", "application/json", body); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	s.WaitIdle()
	st, _ := s.Governor.TenantState("acme")
	if u := s.ChargedUsage("acme"); u != (governor.Usage{}) || st.Budgets[0].Used != 0 || s.Used("acme")["tokens"] != 0 {
		t.Errorf("to count tokens took %+v, and %d of a budget", u, st.Budgets[0].Used)
	}
	if n := s.Used("acme")["requests"]; n != 3 {
		t.Errorf("three calls are %d requests", n)
	}
}
