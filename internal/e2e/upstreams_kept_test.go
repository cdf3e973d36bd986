package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// line is a connection to an upstream, which its handlers find in their context.
type line struct {
	net.Conn
	calls atomic.Int64
}

type lineKey struct{}

// hangsUp is an upstream that closes a connection without an answer when a call comes on it for which
// that is due, by how many came on it before; and after a while.
func hangsUp(next http.Handler, due func(before int64) bool, after time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l := r.Context().Value(lineKey{}).(*line)
		if due(l.calls.Add(1) - 1) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(after)
			_ = l.Close()
			return
		}
		next.ServeHTTP(w, r)
	}
}

// A server that closes a connection which has been idle for a while, just when the next call
// comes on it, costs nobody that call, and is not taken for one that fails. One that closes
// each connection is.
func TestUpstreams_KeptConnectionIsClosed(t *testing.T) {
	kept := func(before int64) bool { return before > 0 }
	always := func(int64) bool { return true }
	never := func(int64) bool { return false }
	for _, version := range []int{1, 2} {
		for _, c := range []struct {
			name, path, body string
			due              func(before int64) bool
			after            time.Duration
			status           int
			arrive           int64 // of the second call, at the upstream
			tries            map[string]int64
		}{
			{"it is sent once more", "/chat/completions", chat(false, 5, ""), kept, 0, 200, 2, map[string]int64{"served": 2, "stale": 1}},
			{"so is a stream", "/chat/completions", chat(true, 5, ""), kept, 0, 200, 2, map[string]int64{"served": 2, "stale": 1}},
			{"but once", "/chat/completions", chat(false, 5, ""), always, 0, 502, 2, map[string]int64{"served": 1, "stale": 1, "silent": 1}},
			{"and not what the upstream had for a while", "/chat/completions", chat(false, 5, ""), kept, 2 * time.Second, 502, 1, map[string]int64{"served": 1, "silent": 1}},
			{"and not what would be there twice", "/responses", `{"model":"m","input":"Hi","store":true}`, kept, 0, 502, 1, map[string]int64{"served": 1, "silent": 1}},
		} {
			t.Run(fmt.Sprintf("HTTP/%d/%s", version, c.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := newMoody(t, mock.Config{})
					up.become(hangsUp(up.mock, never, 0))
					s := newStack(t, world{
						pool: only("up"), tenants: []tenants.Tenant{tenant("a", 1)}, version: version,
						others: map[string]http.Handler{"up": up},
					})
					defer s.close()
					if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != http.StatusOK {
						t.Fatalf("%d %s", ans.status, ans.body)
					}
					synctest.Wait() // the connection is kept
					up.become(hangsUp(up.mock, c.due, c.after))
					before := up.calls.Load()
					if ans := s.callTo(t.Context(), c.path, "a", c.body); ans.status != c.status {
						t.Errorf("%d %s, want %d", ans.status, ans.body, c.status)
					}
					if n := up.calls.Load() - before; n != c.arrive {
						t.Errorf("the upstream got the call %d times, want %d", n, c.arrive)
					}
					for _, outcome := range []string{"served", "busy", "failed", "silent", "stale", "abandoned"} {
						if n := s.sum("llmgov_upstream_tries_total", map[string]string{"outcome": outcome}); n != c.tries[outcome] {
							t.Errorf("%d tries are %s, want %d", n, outcome, c.tries[outcome])
						}
					}
					s.checkIdle()
				})
			})
		}
	}
}

// A stream that is reset is a failure, though others came before it on its connection, which goes on.
func TestUpstreams_ResetStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMoody(t, mock.Config{})
		s := newStack(t, world{pool: only("up"), tenants: []tenants.Tenant{tenant("a", 1)}, version: 2, others: map[string]http.Handler{"up": up}})
		defer s.close()
		s.call(t.Context(), "a", chat(false, 5, ""))
		up.become(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != http.StatusBadGateway || up.calls.Load() != 2 {
			t.Errorf("%d %s after %d calls upstream", ans.status, ans.body, up.calls.Load())
		}
		if n := s.sum("llmgov_upstream_tries_total", map[string]string{"outcome": "silent"}); n != 1 {
			t.Errorf("%d tries are silent, want 1", n)
		}
		s.checkIdle()
	})
}

// A call at a time to a server that closes what is idle for as long as they are apart: every try
// on a kept connection is lost, and no call.
func TestUpstreams_KeptConnectionIsClosedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMoody(t, mock.Config{})
		up.become(hangsUp(up.mock, func(before int64) bool { return before > 0 }, 0))
		s := newStack(t, world{pool: only("up"), tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up": up}})
		defer s.close()
		for i := range 50 {
			if ans := s.call(t.Context(), "a", chat(i%2 == 0, 5, "")); ans.status != http.StatusOK {
				t.Fatalf("call %d: %d %s", i, ans.status, ans.body)
			}
			synctest.Wait()
		}
		if v := s.snapshot().Pools[0].Upstreams[0]; v.State != "up" {
			t.Errorf("the upstream is %s", v.State)
		}
		s.checkIdle()
	})
}
