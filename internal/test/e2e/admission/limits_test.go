package admission

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// A budget worth ten calls, idle for a minute, asked for by 50 and 200 at once:
// at most ten reach the model server, at least eight do, and it, given the same
// limit, refuses none.
func TestBudgetOfTenCalls(t *testing.T) {
	for _, axis := range []string{"tpm", "rpm"} {
		for _, n := range []int{50, 200} {
			for _, stream := range []bool{false, true} {
				testkit.Virtual(t, fmt.Sprintf("%s/%d/stream=%v", axis, n, stream), func(t *testing.T) { budgetOfTen(t, axis, n, stream) })
			}
		}
	}
}

func budgetOfTen(t *testing.T, axis string, n int, stream bool) {
	w := harness.World{Tenants: []tenants.Tenant{harness.Tenant("a", 1)}}
	if axis == "tpm" {
		w.Pool = harness.Pool(10_000, 0, 0)
		w.Mock.TPM = 10_000
	} else {
		w.Pool = harness.Pool(0, 10, 0)
		w.Mock.RPM = 10
	}
	w.Pool.Burst = time.Minute
	w.Pool.BurstSet = true
	w.Mock.TokensPerSecond = 200
	s := harness.New(t, w)

	time.Sleep(time.Minute)
	start := s.Mock.Stats()
	var mu sync.Mutex
	served := 0
	refused := 0
	testkit.AtOnce(n, func(_ int) {
		// 940 of output and a prompt of some dozens: just under 1000.
		a := s.Call(t.Context(), "a", harness.Chat(stream, 940, `,"mock":{"output_tokens":940}`))
		mu.Lock()
		defer mu.Unlock()
		switch a.Status {
		case http.StatusOK:
			served++
		case http.StatusTooManyRequests:
			refused++
			if a.Header.Get("Retry-After") == "" || a.Header.Get("retry-after-ms") == "" || harness.ErrorCode(a.Body) != "rate_limit_exceeded" {
				t.Errorf("a refusal without a time or a code: %v %s", a.Header, a.Body)
			}
		default:
			t.Errorf("status %d: %s (%v)", a.Status, a.Body, a.Err)
		}
	})
	got := s.Mock.Stats()
	reached := got.Requests - start.Requests
	t.Logf("%d at once: %d reached the model server, %d were refused by llmgov", n, reached, refused)
	if reached < 8 || reached > 10 || int(reached) != served || served+refused != n {
		t.Errorf("reached %d, served %d, refused %d of %d; want 8 to 10 to reach it and to be served", reached, served, refused, n)
	}
	if got.Refused != 0 {
		t.Errorf("the model server, given the same limit, refused %d", got.Refused)
	}
}

// With a limit on calls at once the peak is exactly the limit, and all are
// served in turn when they may wait.
func TestConcurrencyIsExact(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			testkit.Virtual(t, fmt.Sprintf("own=%v/stream=%v", own, stream), func(t *testing.T) {
				a := harness.Tenant("a", 1)
				a.MaxWait = time.Hour
				w := harness.World{Mock: mock.Config{TokensPerSecond: 20}, Pool: harness.Pool(0, 0, 7), Tenants: []tenants.Tenant{a}}
				if own {
					w.Pool.Concurrency = 100
					w.Tenants[0].Concurrency = 7
				}
				s := harness.New(t, w)
				testkit.AtOnce(200, func(_ int) {
					if a := s.Call(t.Context(), "a", harness.Chat(stream, 20, "")); a.Status != http.StatusOK || a.Err != nil {
						t.Errorf("status %d, %v: %s", a.Status, a.Err, a.Body)
					}
				})
				st := s.Mock.Stats()
				t.Logf("peak %d, served %d", st.PeakRunning, st.Completed)
				if st.PeakRunning != 7 || st.Completed != 200 {
					t.Errorf("peak %d and %d served, want 7 and 200", st.PeakRunning, st.Completed)
				}
			})
		}
	}
}

// A pool with every axis off shares nothing out: its tenants' own limits are all there is.
func TestPoolWithoutLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := harness.Tenant("bound", 1)
		bound.RPM = 3
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("free", 1), bound}})
		for name, want := range map[string]int{"free": 100, "bound": 3} {
			served := 0
			for range 100 {
				a := s.Call(t.Context(), name, harness.Chat(true, 30, ""))
				if a.Status == http.StatusOK {
					served++
				}
				if limit := a.Header.Get("X-Ratelimit-Limit-Tokens"); limit != "" {
					t.Errorf("%s is told of a limit of %s tokens", name, limit)
				}
			}
			if served != want {
				t.Errorf("%s was served %d times, want %d", name, served, want)
			}
		}
	})
}

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
