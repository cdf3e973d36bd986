package objects

import (
	"net/http"
	"testing"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

// The upstream gets the query as the gateway read it: what could mean something else there is refused,
// and the rest is written anew.
func TestAudit_L9_QueryIsReadOnce(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} })}})
	for _, query := range []string{
		"a=1;model=o3", "model=o3", "Model=o3", "mod%65l=o3", "model%00=o3", "model[]=o3", "model%5B%5D=o3", "model.x=o3", "%20model=o3",
		"model+=o3", "%zz&model=o3", "models=o3", "max_tokens=9", "\u017ftream=1", "=1",
	} {
		r := s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(``))
		r.URL.RawQuery = query
		s.Do(r).WantProblem(t, http.StatusBadRequest, "invalid_request_error")
	}
	if n := s.Seen.Count(); n != 0 {
		t.Fatalf("the upstream saw %d of the refused queries", n)
	}
	for query, want := range map[string]string{
		"":                    "",
		"beta=true":           "beta=true",
		"b=2&a=1&a=0":         "a=1&a=0&b=2",
		"a=1%26model%3Do3":    "a=1%26model%3Do3",
		"a=%3Bmodel=o3":       "a=%3Bmodel%3Do3",
		"a=x+y\u00e9&%61-b_c": "a=x+y%C3%A9&a-b_c=",
	} {
		r := s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(``))
		r.URL.RawQuery = query
		if reply := s.Do(r); reply.Status != http.StatusOK {
			t.Errorf("%s: %d %s", query, reply.Status, reply.Body)
			continue
		}
		if got := s.Seen.Last(t).Query; got != want {
			t.Errorf("of %q the upstream gets %q, want %q", query, got, want)
		}
	}
}
