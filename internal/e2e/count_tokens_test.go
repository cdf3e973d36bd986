package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// To count tokens takes none: providers do it for nothing, and beside the limits on
// tokens. It is a request all the same.
//
// Catches: prompts that are counted before they are sent, and charged both times.
func TestCountingTokensTakesNone(t *testing.T) {
	s := newSDKStack(t, sdkWorld{tenants: []tenants.Tenant{sdkTenant("acme", func(t *tenants.Tenant) {
		t.TPM = 1000
		t.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 1000, Per: tenants.Day}}
	})}, pool: sdkPool(func(p *tenants.Pool) { p.TPM = 1000 })})
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("some words ", 50_000) + `"}]}`
	for range 3 {
		if status, text := s.as("acme", "POST", "/v1/messages/count_tokens", "application/json", body); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	s.waitIdle()
	st, _ := s.gov.TenantState("acme")
	if u := s.took("acme"); u != (governor.Usage{}) || st.Budgets[0].Used != 0 || s.used("acme")["tokens"] != 0 {
		t.Errorf("to count tokens took %+v, and %d of a budget", u, st.Budgets[0].Used)
	}
	if n := s.used("acme")["requests"]; n != 3 {
		t.Errorf("three calls are %d requests", n)
	}
}
