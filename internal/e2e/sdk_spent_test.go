package e2e

import (
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3/option"

	"github.com/llmgov/llmgov/tenants"
)

// A spent budget does not come back by asking again, and SDKs that retry by
// themselves are told so.
func TestSDKs_SpentBudget(t *testing.T) {
	for _, sdk := range []struct {
		name string
		call func(*sdkStack, *sdkTransport) (again func() error)
		seen func(*testing.T, error) (status int, code any)
	}{
		{"openai-go", func(s *sdkStack, tr *sdkTransport) func() error {
			c := s.openAIGo(tr, "/v1", option.WithMaxRetries(2))
			return func() error {
				_, err := c.Chat.Completions.New(s.t.Context(), aiChat(nil))
				return err
			}
		}, func(t *testing.T, err error) (int, any) {
			e := aiError(t, err)
			return e.StatusCode, e.Code
		}},
		{"go-openai", func(s *sdkStack, tr *sdkTransport) func() error {
			c := s.goOpenAI(tr, "/v1")
			return func() error {
				_, err := c.CreateChatCompletion(s.t.Context(), goChat(nil))
				return err
			}
		}, func(t *testing.T, err error) (int, any) {
			e := goError(t, err)
			return e.HTTPStatusCode, e.Code
		}},
	} {
		t.Run(sdk.name, func(t *testing.T) {
			s := newSDKStack(t, sdkWorld{tenants: []tenants.Tenant{sdkTenant("acme", func(t *tenants.Tenant) {
				t.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 10, Per: tenants.Month}}
			})}})
			tr := &sdkTransport{}
			call := sdk.call(s, tr)
			if err := call(); err != nil { // takes it all: while nothing else runs, one call may
				t.Fatal(err)
			}
			s.waitIdle()
			status, code := sdk.seen(t, call())
			if status != http.StatusTooManyRequests || code != "insufficient_quota" {
				t.Errorf("got %d %v, want 429 insufficient_quota", status, code)
			}
			if last := tr.last(t); last.header.Get("X-Should-Retry") != "false" || last.header.Get("Retry-After") == "" {
				t.Errorf("headers of a spent budget: %v", last.header)
			}
			if n := len(tr.all()); n != 2 {
				t.Errorf("the gateway saw %d calls, want one that was served and one that was refused", n)
			}
		})
	}
}
