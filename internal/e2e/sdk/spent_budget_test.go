package sdk

import (
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3/option"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

// A spent budget does not come back by asking again, and SDKs that retry by
// themselves are told so.
func TestSDKs_SpentBudget(t *testing.T) {
	for _, sdk := range []struct {
		name string
		call func(*sockets.Stack, *sockets.Transport) (again func() error)
		seen func(*testing.T, error) (status int, code any)
	}{
		{"openai-go", func(s *sockets.Stack, tr *sockets.Transport) func() error {
			c := openAIGo(s, tr, "/v1", option.WithMaxRetries(2))
			return func() error {
				_, err := c.Chat.Completions.New(s.T.Context(), aiChat(nil))
				return err
			}
		}, func(t *testing.T, err error) (int, any) {
			e := aiError(t, err)
			return e.StatusCode, e.Code
		}},
		{"go-openai", func(s *sockets.Stack, tr *sockets.Transport) func() error {
			c := goOpenAI(s, tr, "/v1")
			return func() error {
				_, err := c.CreateChatCompletion(s.T.Context(), goChat(nil))
				return err
			}
		}, func(t *testing.T, err error) (int, any) {
			e := goError(t, err)
			return e.HTTPStatusCode, e.Code
		}},
	} {
		t.Run(sdk.name, func(t *testing.T) {
			s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
				t.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 10, Per: tenants.Month}}
			})}})
			tr := &sockets.Transport{}
			call := sdk.call(s, tr)
			if err := call(); err != nil { // takes it all: while nothing else runs, one call may
				t.Fatal(err)
			}
			s.WaitIdle()
			status, code := sdk.seen(t, call())
			if status != http.StatusTooManyRequests || code != "insufficient_quota" {
				t.Errorf("got %d %v, want 429 insufficient_quota", status, code)
			}
			if last := tr.Last(t); last.Header.Get("X-Should-Retry") != "false" || last.Header.Get("Retry-After") == "" {
				t.Errorf("headers of a spent budget: %v", last.Header)
			}
			if n := len(tr.All()); n != 2 {
				t.Errorf("the gateway saw %d calls, want one that was served and one that was refused", n)
			}
		})
	}
}
