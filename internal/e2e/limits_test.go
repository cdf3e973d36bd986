package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// A budget worth ten calls, idle for a minute, asked for by 50 and 200 at once:
// at most ten reach the model server, at least eight do, and it, given the same
// limit, refuses none.
func TestBudgetOfTenCalls(t *testing.T) {
	for _, axis := range []string{"tpm", "rpm"} {
		for _, n := range []int{50, 200} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/stream=%v", axis, n, stream), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { budgetOfTen(t, axis, n, stream) })
				})
			}
		}
	}
}

func budgetOfTen(t *testing.T, axis string, n int, stream bool) {
	w := world{tenants: []tenants.Tenant{tenant("a", 1)}}
	if axis == "tpm" {
		w.pool = pool(10_000, 0, 0)
		w.mock.TPM = 10_000
	} else {
		w.pool = pool(0, 10, 0)
		w.mock.RPM = 10
	}
	w.pool.Burst = time.Minute
	w.pool.BurstSet = true
	w.mock.TokensPerSecond = 200
	s := newStack(t, w)
	defer s.close()

	time.Sleep(time.Minute)
	start := s.mock.Stats()
	var wg sync.WaitGroup
	var mu sync.Mutex
	served := 0
	refused := 0
	for range n {
		wg.Go(func() {
			// 940 of output and a prompt of some dozens: just under 1000.
			a := s.call(t.Context(), "a", chat(stream, 940, `,"mock":{"output_tokens":940}`))
			mu.Lock()
			defer mu.Unlock()
			switch a.status {
			case http.StatusOK:
				served++
			case http.StatusTooManyRequests:
				refused++
				if a.header.Get("Retry-After") == "" || a.header.Get("retry-after-ms") == "" || errorCode(a.body) != "rate_limit_exceeded" {
					t.Errorf("a refusal without a time or a code: %v %s", a.header, a.body)
				}
			default:
				t.Errorf("status %d: %s (%v)", a.status, a.body, a.err)
			}
		})
	}
	wg.Wait()
	got := s.mock.Stats()
	reached := got.Requests - start.Requests
	t.Logf("%d at once: %d reached the model server, %d were refused by llmgov", n, reached, refused)
	if reached < 8 || reached > 10 || int(reached) != served || served+refused != n {
		t.Errorf("reached %d, served %d, refused %d of %d; want 8 to 10 to reach it and to be served", reached, served, refused, n)
	}
	if got.Refused != 0 {
		t.Errorf("the model server, given the same limit, refused %d", got.Refused)
	}
	s.checkIdle()
}

// With a limit on calls at once the peak is exactly the limit, and all are
// served in turn when they may wait.
func TestConcurrencyIsExact(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("own=%v/stream=%v", own, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := tenant("a", 1)
					a.MaxWait = time.Hour
					w := world{mock: mock.Config{TokensPerSecond: 20}, pool: pool(0, 0, 7), tenants: []tenants.Tenant{a}}
					if own {
						w.pool.Concurrency = 100
						w.tenants[0].Concurrency = 7
					}
					s := newStack(t, w)
					defer s.close()
					var wg sync.WaitGroup
					for range 200 {
						wg.Go(func() {
							if a := s.call(t.Context(), "a", chat(stream, 20, "")); a.status != http.StatusOK || a.err != nil {
								t.Errorf("status %d, %v: %s", a.status, a.err, a.body)
							}
						})
					}
					wg.Wait()
					st := s.mock.Stats()
					t.Logf("peak %d, served %d", st.PeakRunning, st.Completed)
					if st.PeakRunning != 7 || st.Completed != 200 {
						t.Errorf("peak %d and %d served, want 7 and 200", st.PeakRunning, st.Completed)
					}
					s.checkIdle()
				})
			})
		}
	}
}

// A pool with every axis off shares nothing out: its tenants' own limits are all there is.
func TestPoolWithoutLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := tenant("bound", 1)
		bound.RPM = 3
		s := newStack(t, world{pool: pool(0, 0, 0), tenants: []tenants.Tenant{tenant("free", 1), bound}})
		defer s.close()
		for name, want := range map[string]int{"free": 100, "bound": 3} {
			served := 0
			for range 100 {
				a := s.call(t.Context(), name, chat(true, 30, ""))
				if a.status == http.StatusOK {
					served++
				}
				if limit := a.header.Get("X-Ratelimit-Limit-Tokens"); limit != "" {
					t.Errorf("%s is told of a limit of %s tokens", name, limit)
				}
			}
			if served != want {
				t.Errorf("%s was served %d times, want %d", name, served, want)
			}
		}
		s.checkIdle()
	})
}
