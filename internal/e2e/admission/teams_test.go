package admission

import (
	"context"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// A tenant with two teams and a key of its own, as an operator writes it, beside
// another tenant.
const acmeAndBob = `
tenants:
  acme:
    max_wait: 1h
    LIMIT
    keys: [KEY(acme)]
    teams:
      search: {weight: 3, keys: [KEY(acme/search)]}
      batch:  {keys: [KEY(acme/batch)]}
  bob: {max_wait: 1h, keys: [KEY(bob)]}
`

// From the files to the tokens: all flood, and acme's half is divided 3:1:1 among its
// teams and its own key. While a team is away the others of acme have its part, and bob
// has no more than before.
func TestTeams_SharesThroughTheStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tpm = 600_000
		s := harness.New(t, harness.World{Mock: mock.Config{TPM: tpm}, Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
		s.Apply(harness.PolicyFromFiles(t, "tpm: 600000", strings.Replace(acmeAndBob, "LIMIT", "weight: 1", 1)))
		wantShares(s, tpm, map[string]float64{"acme/search": .3, "acme/batch": .1, "acme": .1, "bob": .5})
		wantShares(s, tpm, map[string]float64{"acme/batch": .25, "acme": .25, "bob": .5})
		s.CheckIdle()
		if st := s.Mock.Stats(); st.Refused != 0 || st.WindowTokensPeak > tpm {
			t.Errorf("the model server refused %d; its fullest minute had %d tokens of %d", st.Refused, st.WindowTokensPeak, tpm)
		}
	})
}

// wantShares floods for some minutes, and wants each to have received its part within
// 5 %.
func wantShares(s *harness.Stack, tpm int, parts map[string]float64) {
	s.T.Helper()
	minutes := testkit.Rounds(2, 5)
	body := harness.Chat(false, 1000, `,"mock":{"output_tokens":985}`)
	ctx, stop := context.WithCancel(s.T.Context())
	var wg sync.WaitGroup
	for name := range parts {
		keepBusy(ctx, &wg, 12, func(ctx context.Context) {
			if a := s.Call(ctx, name, body); a.Err == nil && a.Status != http.StatusOK {
				s.T.Errorf("%s: status %d: %s", name, a.Status, a.Body)
			}
		})
	}
	got := map[string]int64{}
	count := func(by int64) {
		for name := range parts {
			got[name] += by * (s.Charged(name, "input") + s.Charged(name, "output"))
		}
	}
	time.Sleep(90 * time.Second) // in which the burst is used up, and the parts settle
	count(-1)
	time.Sleep(time.Duration(minutes) * time.Minute)
	count(1)
	stop()
	wg.Wait()
	for name, want := range parts {
		is := float64(got[name]) / float64(minutes*tpm)
		s.T.Logf("%s received %.4f of the limit, ideal %.4f", name, is, want)
		if math.Abs(is-want) > 0.05*want {
			s.T.Errorf("%s received %.4f of the limit, want %.4f ± 5 %%", name, is, want)
		}
	}
}

// A limit of the tenant holds for all its teams together, and a team that it refuses is
// told whose it is; who is beside it is not touched.
func TestTeams_ParentsLimitRefusesATeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
		s.Apply(harness.PolicyFromFiles(t, "tpm: 600000", strings.Replace(acmeAndBob, "LIMIT", "rpm: 3", 1)))
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
