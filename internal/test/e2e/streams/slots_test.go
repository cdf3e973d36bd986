package streams

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/lib/http1"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/tenants"
)

// oneSlot is a stack whose tenant a may have one call at a time, and cannot wait.
func oneSlot(t *testing.T, m mock.Config) *harness.Stack {
	a := harness.Tenant("a", 1)
	a.Concurrency = 1
	return harness.New(t, harness.World{Mock: m, Pool: harness.Pool(1e9, 0, 0), Tenants: []tenants.Tenant{a}, StreamIdle: 2 * time.Minute})
}

// call is a call of so many tokens in a dialect.
func (d dialect) call(stream bool, tokens int, hooks string) string {
	return fmt.Sprintf(`{"model":"m",%s,"stream":%v,"mock":{"output_tokens":%d%s}}`, d.ask, stream, tokens, hooks)
}

// leaveAfter begins a call and leaves after a time.
func leaveAfter(s *harness.Stack, d time.Duration, path, body string) {
	ctx, cancel := context.WithTimeout(s.T.Context(), d)
	defer cancel()
	if resp, err := s.PostTo(ctx, path, "a", body); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	synctest.Wait() // as soon as that is seen; no time passes
}

// The one slot of a tenant is free as soon as its stream is cancelled, or whole: in
// every dialect, again and again.
func TestP15_CancelledStreamFreesItsSlot(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := oneSlot(t, mock.Config{TokensPerSecond: 10})
			for i := range 20 {
				leaveAfter(s, time.Duration(i)*100*time.Millisecond, d.path, d.call(true, 200, ""))
				if a := s.CallTo(t.Context(), d.path, "a", d.call(i%2 == 0, 5, "")); a.Status != http.StatusOK || a.Err != nil {
					t.Fatalf("%s, after %d were cancelled and as many whole: %d %s", d.name, i, a.Status, a.Body)
				}
			}
		})
	}
}

// However the upstream fails, the one slot of a tenant is free then.
func TestP16_FailuresUpstreamFreeTheSlot(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := oneSlot(t, mock.Config{TokensPerSecond: 10})
			for hooks, want := range map[string]int{
				`,"error_status":500`: 500, `,"error_status":502`: 502, `,"error_status":503`: 503, `,"error_status":504`: 504, `,"error_status":429`: 429,
				`,"hangup_after":3`: 200, `,"error_after":3`: 200, `,"stall_after":3`: 200,
				`,"first_token_ms":600000`: http.StatusGatewayTimeout,
			} {
				if a := s.CallTo(t.Context(), d.path, "a", d.call(true, 20, hooks)); a.Status != want {
					t.Errorf("%s with %s: %d %s", d.name, hooks, a.Status, a.Body)
				}
				time.Sleep(time.Minute) // a provider that says 429 is left alone for a second, one that fails often for longer
				if a := s.CallTo(t.Context(), d.path, "a", d.call(true, 5, "")); a.Status != http.StatusOK || a.Err != nil {
					t.Errorf("%s after %s: %d %s", d.name, hooks, a.Status, a.Body)
				}
			}
		})
	}
}

// holds looks that tenant a's one stream holds its slot at each of some times since it
// began, and until its end only.
func holds(s *harness.Stack, d dialect, body string, at ...time.Duration) {
	s.T.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := s.CallTo(s.T.Context(), d.path, "a", body); a.Status != http.StatusOK || a.Err != nil {
			s.T.Errorf("%s: %d %s %v", d.name, a.Status, a.Body, a.Err)
		}
	})
	for _, age := range at {
		time.Sleep(age - time.Since(began))
		a := s.CallTo(s.T.Context(), d.path, "a", d.call(true, 5, ""))
		if running, _ := s.Governor.Leases(); a.Status != http.StatusTooManyRequests || running != 1 {
			s.T.Errorf("%s: after %v a second call gets %d and %d run", d.name, age, a.Status, running)
		}
	}
	wg.Wait()
	s.CallTo(s.T.Context(), d.path, "a", d.call(true, 5, "")).WantOK(s.T, d.name, "after the end a call")
	s.CheckIdle()
}

// A stream holds its slot until its last byte, not until its headers are sent, and is
// charged then.
func TestP19_StreamsHoldTheirSlotToTheEnd(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := oneSlot(t, mock.Config{TokensPerSecond: 10})
			holds(s, d, d.call(true, 100, ""), 100*time.Millisecond, 5*time.Second, 9*time.Second)
			checkCharged(s, d.name)
		})
	}
}

// A stream of twenty minutes is no stale entry that something may sweep away.
func TestP20_LongStreamsKeepTheirSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := oneSlot(t, mock.Config{})
		holds(s, dialects[0], dialects[0].call(true, 240, `,"token_ms":5000`), time.Minute, 6*time.Minute, 11*time.Minute, 19*time.Minute)
	})
}

// With one connection to the upstream, each stream that is given up leaves it to the
// next call.
func TestP22_AbandonedStreamsLeaveTheirConnections(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := harness.New(t, harness.World{
				Mock: mock.Config{TokensPerSecond: 10}, Pool: harness.Pool(1e9, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)},
				Wrap: func(next http.RoundTripper) http.RoundTripper {
					transport := next.(*http1.Transport)
					transport.DialContext = oneAtATime(transport.DialContext)
					return next
				},
			})
			for i := range 30 {
				leaveAfter(s, time.Duration(i)*100*time.Millisecond, d.path, d.call(true, 200, ""))
				began := time.Now()
				if a := s.CallTo(t.Context(), d.path, "a", d.call(true, 5, "")); a.Status != http.StatusOK || time.Since(began) > time.Second {
					t.Fatalf("%s: call %d got %d after %v: %s", d.name, i, a.Status, time.Since(began), a.Body)
				}
			}
		})
	}
}

// oneAtATime opens the next connection when the one before it is closed.
func oneAtATime(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	open := make(chan struct{}, 1)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case open <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &counted{Conn: conn, closed: sync.OnceFunc(func() { <-open })}, nil
	}
}

// counted is a connection that reports its end once.
type counted struct {
	net.Conn
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

// Streams are in flight as long as they flow, and counted so.
func TestP23_StreamsAreCountedInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Mock: mock.Config{TokensPerSecond: 10}, Pool: harness.Pool(1e9, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		var wg sync.WaitGroup
		for i := range 12 { // of 1 to 12 s
			d := dialects[i%len(dialects)]
			wg.Go(func() { s.CallTo(t.Context(), d.path, "a", d.call(true, 10*(i+1), "")) })
		}
		time.Sleep(500 * time.Millisecond)
		for left := int64(12); left >= 0; left-- {
			got := s.Sum("llmgov_inflight_requests", map[string]string{"tenant": "a"})
			if st := s.Mock.Stats(); got != left || st.Running != left {
				t.Errorf("%d are counted and %d run upstream, want %d", got, st.Running, left)
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
	})
}

// What remains falls with each call by what that took, in every dialect.
func TestP35_WhatRemainsFallsByWhatWasTaken(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := limited(t, func(a *tenants.Tenant) { a.TPM = 10_000 }, mock.Config{})
			for i := range 8 {
				before := s.Mock.Stats().TokensProduced
				a := s.CallTo(t.Context(), d.path, "a", d.call(i%2 == 0, 10+100*(i%3), ""))
				left, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Remaining-Tokens"), 10, 64)
				synctest.Wait()
				now := s.Governor.State().Tenants[0].Limits[0].Used
				after := s.Mock.Stats().TokensProduced
				// The header is of its call's beginning: what was used, and what that holds.
				if err != nil || now != after || left > 10_000-before-1 || left < 10_000-before-500 {
					t.Errorf("%s, call %d: %d used of %d produced, %d said to remain", d.name, i, now, after, left)
				}
			}
		})
	}
}

// Whether tokens from a cache count is the pool's to say: not at all, a tenth, or like
// others.
func TestP36_CachedTokensCountAsThePoolSays(t *testing.T) {
	const said = `{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1010,"prompt_tokens_details":{"cached_tokens":800}}}`
	for weight, want := range map[float64]int64{0: 210, 0.1: 290, 1: 1010} {
		synctest.Test(t, func(t *testing.T) {
			p := harness.Pool(100_000, 0, 0)
			p.Weights = tenants.TokenWeights{Input: 1, CachedInput: weight, Output: 1, Reasoning: 1, Audio: 1}
			a := harness.Tenant("a", 1)
			a.TPM = 50_000
			s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{a}, Wrap: saying("application/json", said)})
			s.Call(t.Context(), "a", harness.Chat(false, 10, ""))
			st := s.Governor.State()
			if ofPool, own := st.Pools[0].Axes[0].Used, st.Tenants[0].Limits[0].Used; ofPool != want || own != want {
				t.Errorf("with a weight of %v they count %d in the pool and %d in the tenant's minute, want %d", weight, ofPool, own, want)
			}
			if got := s.Charged("a", "cached_input"); got != 800 {
				t.Errorf("%d cached tokens are told", got)
			}
		})
	}
}

// Input and output have limits of their own, and each counts only its own.
func TestP38_InputAndOutputHaveTheirOwnLimits(t *testing.T) {
	prompt := strings.Repeat("a word or two ", 60)
	long := func(output string) string {
		return strings.Replace(harness.Chat(false, 1, `,"mock":{"output_tokens":`+output+`}`), `"max_tokens":1`, `"max_tokens":`+output, 1)
	}
	for _, tt := range []struct {
		name, says   string
		edit         func(*tenants.Tenant)
		passes, stop string
	}{
		{"input", "input tokens per min (ITPM)", func(a *tenants.Tenant) { a.ITPM = 250 }, long("5000"), strings.Replace(long("1"), "How long is a piece of string?", prompt, 1)},
		{"output", "output tokens per min (OTPM)", func(a *tenants.Tenant) { a.OTPM = 250 }, strings.Replace(long("1"), "How long is a piece of string?", prompt, 1), long("200")},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := limited(t, tt.edit, mock.Config{})
			for range 5 {
				s.Call(t.Context(), "a", tt.passes).WantOK(t, tt.name, "what counts little")
			}
			var last harness.Answer
			for range 3 {
				last = s.Call(t.Context(), "a", tt.stop)
			}
			if last.Status != http.StatusTooManyRequests || !strings.Contains(last.Body, tt.says) {
				t.Errorf("%s: %d %s", tt.name, last.Status, last.Body)
			}
		})
	}
}

// A budget in money lets a tenant have many tokens of a cheap model, or few of a dear one.
func TestP39_MoneyWeighsModels(t *testing.T) {
	const budget = 20_000 // µUSD
	for model, want := range map[string]int64{"cheap": 173, "dear": 1} {
		synctest.Test(t, func(t *testing.T) {
			a := harness.Tenant("a", 1)
			a.Models = []string{"cheap", "dear"}
			a.Budgets = []tenants.Budget{{Unit: tenants.MicroUSD, Limit: budget, Per: tenants.Day}}
			s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 10), Tenants: []tenants.Tenant{a}, Prices: []tenants.ModelPrice{
				{Model: "cheap", Price: tenants.Price{Input: 1_000_000, Output: 1_000_000}},
				{Model: "dear", Price: tenants.Price{Input: 100_000_000, Output: 100_000_000}},
			}})
			body := strings.Replace(harness.Chat(false, 100, ""), `"m"`, `"`+model+`"`, 1)
			served := int64(0)
			last := harness.Answer{}
			for last = s.Call(t.Context(), "a", body); last.Status == http.StatusOK; last = s.Call(t.Context(), "a", body) {
				served++
			}
			took := s.Mock.Stats().TokensProduced
			if served < want-1 || served > want+1 || harness.ErrorCode(last.Body) != "insufficient_quota" || model == "cheap" && took < 19_000 {
				t.Errorf("%s: %d were served, %d tokens, and then %d: %s", model, served, took, last.Status, last.Body)
			}
		})
	}
}

// A refusal on /messages says when to come back, and all limits under the names that
// Anthropic's SDKs know.
func TestP59_MessagesSayWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, func(a *tenants.Tenant) {
			a.RPM = 1
			a.TPM = 100_000
		}, mock.Config{})
		messages := dialects[3]
		for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			a := s.CallTo(t.Context(), messages.path, "a", messages.call(true, 10, ""))
			h := a.Header
			if a.Status != want || h.Get("anthropic-ratelimit-requests-limit") != "1" || h.Get("anthropic-ratelimit-requests-remaining") != "0" || h.Get("anthropic-ratelimit-tokens-limit") != "100000" {
				t.Errorf("call %d: %d %v", i, a.Status, h)
			}
			reset, err := time.Parse(time.RFC3339, h.Get("anthropic-ratelimit-requests-reset"))
			if left := time.Until(reset); err != nil || left < 58*time.Second || left > 61*time.Second {
				t.Errorf("call %d: it resets at %q", i, h.Get("anthropic-ratelimit-requests-reset"))
			}
			if want == http.StatusTooManyRequests && (h.Get("Retry-After") != "60" && h.Get("Retry-After") != "61" || h.Get("retry-after-ms") == "" || harness.ReadError(a.Body).Type != "rate_limit_error") {
				t.Errorf("%v %s", h, a.Body)
			}
		}
	})
}
