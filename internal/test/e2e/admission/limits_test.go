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
			s.Call(t.Context(), name, harness.Chat(false, 9, ""), now...).WantOK(t, name)
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
		s.Call(t.Context(), "bob", harness.Chat(false, 9, ""), now...).WantOK(t, "bob")
		time.Sleep(time.Minute + time.Second)
		s.Call(t.Context(), "acme/batch", harness.Chat(false, 9, ""), now...).WantOK(t, "a minute later")
	})
}

const acmeWithMembers = `
tenants:
  acme:
    keys: [KEY(acme)]
    members:
      by: BY
      each: {rpm: 2, budgets: [{tokens: 100000, per: day}]}
      override: {bot: {rpm: 0}, eve: {rpm: 0, until: "2000-01-01T00:00:00Z"}, big: {rpm: 4}}
      # the names that stand here count with sessions, too
  bob: {keys: [KEY(bob)]}
  runs: {keys: [KEY(runs)], members: {by: BY, each: {budgets: [{requests: 3, per: life}]}}}
`

// Members are told apart by what the policy names, and by nothing else; each has its own limits, and those who give no name are one. No metric
// names them.
func TestMembers(t *testing.T) {
	header := func(name string) func(string) (string, []string) {
		return func(who string) (string, []string) { return "", []string{name, who} }
	}
	body := func(field string) func(string) (string, []string) {
		return func(who string) (string, []string) { return fmt.Sprintf(field, who), nil }
	}
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		by, kind string
		says     func(who string) (extra string, headers []string)
	}{
		{"header.x-openwebui-user-email", "member", header("X-OpenWebUI-User-Email")},
		{"body.user", "member", body(`,"user":%q`)},
		{"session", "session", header("X-Claude-Code-Session-Id")},
		{"session", "session", header("session_id")},
		{"session", "", body(`,"prompt_cache_key":%q`)},
	} {
		testkit.Virtual(t, c.by, func(t *testing.T) {
			s := harness.New(t, harness.World{Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
			s.Apply(harness.PolicyFromFiles(t, "tpm: 600000", strings.ReplaceAll(acmeWithMembers, "BY", c.by)))
			goes := func(tenant, who string, want int, says string) {
				t.Helper()
				went := 0
				refused := ""
				for range 5 {
					extra, headers := c.says(who)
					if who == "" {
						extra, headers = "", nil
					}
					switch a := s.Call(t.Context(), tenant, harness.Chat(false, 9, extra), append(headers, "x-other-user", "ann", "x-llmgov-max-wait", "0s")...); a.Status {
					case http.StatusOK:
						went++
					default:
						refused = a.Body
					}
				}
				if went != want || !strings.Contains(refused, says) {
					t.Errorf("%s of %s: %d calls went, want %d; refused: %s", who, tenant, went, want, refused)
				}
			}
			called := func(who string) string {
				if c.kind == "" {
					return "session "
				}
				return c.kind + " " + who + " of tenant acme"
			}
			goes("acme", "ann", 2, "Rate limit reached for "+called("ann"))
			goes("acme", "ann@example.com", 2, called("ann@example.com"))
			goes("acme", long+"1", 2, "Rate limit reached for ")
			goes("acme", long+"2", 2, "")
			goes("acme", "", 2, "callers of tenant acme that give no name")
			goes("bob", "ann", 5, "")
			ends := map[string]string{"member": "It is for life and does not come back: ask whoever", "session": "does not come back: begin another session, or ask whoever", "": "does not come back"}[c.kind]
			goes("runs", "ann", 3, ends)
			extra, headers := c.says("ann")
			a := s.Call(t.Context(), "runs", harness.Chat(false, 9, extra), headers...)
			if h := a.Header; a.Status != http.StatusTooManyRequests || !strings.Contains(a.Body, "insufficient_quota") || h.Get("x-should-retry") != "false" || h.Get("Retry-After")+h.Get("retry-after-ms") != "" {
				t.Errorf("a life's budget that is spent: %d %v %s", a.Status, a.Header, a.Body)
			}
			if c.kind == "member" {
				goes("acme", "bot", 0, "Calls of member bot of tenant acme are refused: its rpm is 0.")
				goes("acme", "eve", 2, "")
				goes("acme", "big", 4, "")
			}
			for name, want := range map[string]int64{"acme": 0, "acme/~ann": 0} {
				if name == "acme" {
					want = 8
					if c.kind == "member" {
						want = 14
					}
					want += 2
				}
				if got := s.Sum("llmgov_requests_total", map[string]string{"tenant": name, "outcome": "ok"}); got != want {
					t.Errorf("%d calls of %s are counted, want %d", got, name, want)
				}
			}
		})
	}
}

// A key with limits has them beside its tenant's. Keys that have none are one member together, and a key of which one is 0 is blocked.
func TestMembers_Keys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
		s.Apply(harness.PolicyFromFiles(t, "tpm: 600000", `
tenants:
  acme:
    rpm: 8
    keys: [{name: ci, hash: KEY(ci), rpm: 2}, {name: old, hash: KEY(old), tpm: 0}, KEY(acme)]
`))
		for _, c := range []struct {
			key  string
			went int
			says string
		}{
			{"ci", 2, "Rate limit reached for key ci of tenant acme on requests per min (RPM): Limit 2, Used 2, Requested 1."},
			{"old", 0, "Calls of key old of tenant acme are refused: its tpm is 0."},
			{"acme", 6, "Rate limit reached for tenant acme on requests per min (RPM): Limit 8, Used 8, Requested 1."},
		} {
			went := 0
			last := ""
			for range 10 {
				a := s.Call(t.Context(), c.key, harness.Chat(false, 9, ""), "x-llmgov-max-wait", "0s")
				if last = a.Body; a.Status == http.StatusOK {
					went++
				}
			}
			if went != c.went || !strings.Contains(last, c.says) {
				t.Errorf("%s: %d calls went, want %d; then it says %s", c.key, went, c.went, last)
			}
		}
	})
}
