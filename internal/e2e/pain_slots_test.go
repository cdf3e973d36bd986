package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// oneSlot is a stack whose tenant a may have one call at a time, and cannot wait.
func oneSlot(t *testing.T, m mock.Config) *stack {
	a := tenant("a", 1)
	a.Concurrency = 1
	return newStack(t, world{mock: m, pool: pool(1e9, 0, 0), tenants: []tenants.Tenant{a}, idle: 2 * time.Minute})
}

// call is a call of so many tokens in a dialect.
func (d dialect) call(stream bool, tokens int, hooks string) string {
	return fmt.Sprintf(`{"model":"m",%s,"stream":%v,"mock":{"output_tokens":%d%s}}`, d.ask, stream, tokens, hooks)
}

// leaveAfter begins a call and leaves after a time.
func (s *stack) leaveAfter(d time.Duration, path, body string) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	if resp, err := s.postTo(ctx, path, "a", body); err == nil {
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
			defer s.close()
			for i := range 20 {
				s.leaveAfter(time.Duration(i)*100*time.Millisecond, d.path, d.call(true, 200, ""))
				if a := s.callTo(t.Context(), d.path, "a", d.call(i%2 == 0, 5, "")); a.status != http.StatusOK || a.err != nil {
					t.Fatalf("%s, after %d were cancelled and as many whole: %d %s", d.name, i, a.status, a.body)
				}
			}
			s.checkIdle()
		})
	}
}

// However the upstream fails, the one slot of a tenant is free then.
func TestP16_FailuresUpstreamFreeTheSlot(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := oneSlot(t, mock.Config{TokensPerSecond: 10})
			defer s.close()
			for hooks, want := range map[string]int{
				`,"error_status":500`: 500, `,"error_status":502`: 502, `,"error_status":503`: 503, `,"error_status":504`: 504, `,"error_status":429`: 429,
				`,"hangup_after":3`: 200, `,"error_after":3`: 200, `,"stall_after":3`: 200,
				`,"first_token_ms":600000`: http.StatusGatewayTimeout,
			} {
				if a := s.callTo(t.Context(), d.path, "a", d.call(true, 20, hooks)); a.status != want {
					t.Errorf("%s with %s: %d %s", d.name, hooks, a.status, a.body)
				}
				time.Sleep(time.Minute) // a provider that says 429 is left alone for a second, one that fails often for longer
				if a := s.callTo(t.Context(), d.path, "a", d.call(true, 5, "")); a.status != http.StatusOK || a.err != nil {
					t.Errorf("%s after %s: %d %s", d.name, hooks, a.status, a.body)
				}
			}
			s.checkIdle()
		})
	}
}

// holds looks that tenant a's one stream holds its slot at each of some times since it
// began, and until its end only.
func (s *stack) holds(d dialect, body string, at ...time.Duration) {
	s.t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := s.callTo(s.t.Context(), d.path, "a", body); a.status != http.StatusOK || a.err != nil {
			s.t.Errorf("%s: %d %s %v", d.name, a.status, a.body, a.err)
		}
	})
	for _, age := range at {
		time.Sleep(age - time.Since(began))
		a := s.callTo(s.t.Context(), d.path, "a", d.call(true, 5, ""))
		if running, _ := s.gov.Leases(); a.status != http.StatusTooManyRequests || running != 1 {
			s.t.Errorf("%s: after %v a second call gets %d and %d run", d.name, age, a.status, running)
		}
	}
	wg.Wait()
	if a := s.callTo(s.t.Context(), d.path, "a", d.call(true, 5, "")); a.status != http.StatusOK {
		s.t.Errorf("%s: after the end a call gets %d: %s", d.name, a.status, a.body)
	}
	s.checkIdle()
}

// A stream holds its slot until its last byte, not until its headers are sent, and is
// charged then.
func TestP19_StreamsHoldTheirSlotToTheEnd(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := oneSlot(t, mock.Config{TokensPerSecond: 10})
			defer s.close()
			s.holds(d, d.call(true, 100, ""), 100*time.Millisecond, 5*time.Second, 9*time.Second)
			s.checkCharged(d.name)
		})
	}
}

// A stream of twenty minutes is no stale entry that something may sweep away.
func TestP20_LongStreamsKeepTheirSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := oneSlot(t, mock.Config{})
		defer s.close()
		s.holds(dialects[0], dialects[0].call(true, 240, `,"token_ms":5000`), time.Minute, 6*time.Minute, 11*time.Minute, 19*time.Minute)
	})
}

// With one connection to the upstream, each stream that is given up leaves it to the
// next call.
func TestP22_AbandonedStreamsLeaveTheirConnections(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := newStack(t, world{
				mock: mock.Config{TokensPerSecond: 10}, pool: pool(1e9, 0, 0), tenants: []tenants.Tenant{tenant("a", 1)},
				wrap: func(next http.RoundTripper) http.RoundTripper {
					next.(*http.Transport).MaxConnsPerHost = 1
					return next
				},
			})
			defer s.close()
			for i := range 30 {
				s.leaveAfter(time.Duration(i)*100*time.Millisecond, d.path, d.call(true, 200, ""))
				began := time.Now()
				if a := s.callTo(t.Context(), d.path, "a", d.call(true, 5, "")); a.status != http.StatusOK || time.Since(began) > time.Second {
					t.Fatalf("%s: call %d got %d after %v: %s", d.name, i, a.status, time.Since(began), a.body)
				}
			}
			s.checkIdle()
		})
	}
}

// Streams are in flight as long as they flow, and counted so.
func TestP23_StreamsAreCountedInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, world{mock: mock.Config{TokensPerSecond: 10}, pool: pool(1e9, 0, 0), tenants: []tenants.Tenant{tenant("a", 1)}})
		defer s.close()
		var wg sync.WaitGroup
		for i := range 12 { // of 1 to 12 s
			d := dialects[i%len(dialects)]
			wg.Go(func() { s.callTo(t.Context(), d.path, "a", d.call(true, 10*(i+1), "")) })
		}
		time.Sleep(500 * time.Millisecond)
		for left := int64(12); left >= 0; left-- {
			got := s.sum("llmgov_inflight_requests", map[string]string{"tenant": "a"})
			if st := s.mock.Stats(); got != left || st.Running != left {
				t.Errorf("%d are counted and %d run upstream, want %d", got, st.Running, left)
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
	})
}
