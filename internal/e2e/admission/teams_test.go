package admission

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/tenants"
)

// A tenant with two teams and a key of its own, as an operator writes it, beside
// another tenant.
const acmeAndBob = `
tenants:
  acme:
    max_wait: 1h
    rpm: 3
    keys: [KEY(acme)]
    teams:
      search: {weight: 3, keys: [KEY(acme/search)]}
      batch:  {keys: [KEY(acme/batch)]}
  bob: {max_wait: 1h, keys: [KEY(bob)]}
`

// A limit of the tenant holds for all its teams together, and a team that it refuses is
// told whose it is; who is beside it is not touched.
func TestTeams_ParentsLimitRefusesATeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
		s.Apply(harness.PolicyFromFiles(t, "tpm: 600000", acmeAndBob))
		now := []string{"x-llmgov-max-wait", "0s"}
		for _, name := range []string{"acme/search", "acme/batch", "acme"} {
			if a := s.Call(t.Context(), name, harness.Chat(false, 9, ""), now...); a.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, a.Status, a.Body)
			}
		}
		for _, name := range []string{"acme/search", "acme/batch", "acme"} {
			a := s.Call(t.Context(), name, harness.Chat(false, 9, ""), now...)
			const says = "Rate limit reached for tenant acme on requests per min (RPM): Limit 3, Used 3, Requested 1."
			if a.Status != http.StatusTooManyRequests || harness.ErrorCode(a.Body) != "rate_limit_exceeded" || !strings.Contains(a.Body, says) {
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
			if got := s.Sum("llmgov_requests_total", map[string]string{"tenant": name, "outcome": "refused", "reason": "requests"}); got != 1 {
				t.Errorf("%s: %d refusals are counted", name, got)
			}
		}
		if a := s.Call(t.Context(), "bob", harness.Chat(false, 9, ""), now...); a.Status != http.StatusOK {
			t.Errorf("bob: %d %s", a.Status, a.Body)
		}
		time.Sleep(time.Minute + time.Second)
		if a := s.Call(t.Context(), "acme/batch", harness.Chat(false, 9, ""), now...); a.Status != http.StatusOK {
			t.Errorf("a minute later: %d %s", a.Status, a.Body)
		}
	})
}
