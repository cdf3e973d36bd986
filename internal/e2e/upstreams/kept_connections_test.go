package upstreams

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// hangsUp is an upstream that closes a connection without an answer when a call comes on it for which
// that is due, by how many came on it before; and after a while.
func hangsUp(next http.Handler, due func(before int64) bool, after time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l := r.Context().Value(harness.UpstreamConnKey{}).(*harness.UpstreamConn)
		if due(l.Calls.Add(1) - 1) {
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
			{"it is sent once more", "/chat/completions", harness.Chat(false, 5, ""), kept, 0, 200, 2, map[string]int64{"served": 2, "stale": 1}},
			{"so is a stream", "/chat/completions", harness.Chat(true, 5, ""), kept, 0, 200, 2, map[string]int64{"served": 2, "stale": 1}},
			{"but once", "/chat/completions", harness.Chat(false, 5, ""), always, 0, 502, 2, map[string]int64{"served": 1, "stale": 1, "silent": 1}},
			{"and not what the upstream had for a while", "/chat/completions", harness.Chat(false, 5, ""), kept, 2 * time.Second, 502, 1, map[string]int64{"served": 1, "silent": 1}},
			{"and not what would be there twice", "/responses", `{"model":"m","input":"Hi","store":true}`, kept, 0, 502, 1, map[string]int64{"served": 1, "silent": 1}},
		} {
			testkit.Virtual(t, fmt.Sprintf("HTTP/%d/%s", version, c.name), func(t *testing.T) {
				up := harness.NewUpstream(t, mock.Config{})
				up.AnswerWith(hangsUp(up.Mock, never, 0))
				s := harness.New(t, harness.World{
					Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, HTTPVersion: version,
					Upstreams: map[string]http.Handler{"up": up},
				})
				if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != http.StatusOK {
					t.Fatalf("%d %s", ans.Status, ans.Body)
				}
				synctest.Wait() // the connection is kept
				up.AnswerWith(hangsUp(up.Mock, c.due, c.after))
				before := up.Calls.Load()
				if ans := s.CallTo(t.Context(), c.path, "a", c.body); ans.Status != c.status {
					t.Errorf("%d %s, want %d", ans.Status, ans.Body, c.status)
				}
				if n := up.Calls.Load() - before; n != c.arrive {
					t.Errorf("the upstream got the call %d times, want %d", n, c.arrive)
				}
				for _, outcome := range []string{"served", "busy", "failed", "silent", "stale", "abandoned"} {
					if n := s.Sum("llmgov_upstream_tries_total", map[string]string{"outcome": outcome}); n != c.tries[outcome] {
						t.Errorf("%d tries are %s, want %d", n, outcome, c.tries[outcome])
					}
				}
			})
		}
	}
}

// A stream that is reset is a failure, though others came before it on its connection, which goes on.
func TestUpstreams_ResetStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, HTTPVersion: 2, Upstreams: map[string]http.Handler{"up": up}})
		s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		up.AnswerWith(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != http.StatusBadGateway || up.Calls.Load() != 2 {
			t.Errorf("%d %s after %d calls upstream", ans.Status, ans.Body, up.Calls.Load())
		}
		if n := s.Sum("llmgov_upstream_tries_total", map[string]string{"outcome": "silent"}); n != 1 {
			t.Errorf("%d tries are silent, want 1", n)
		}
	})
}

// A call at a time to a server that closes what is idle for as long as they are apart: every try
// on a kept connection is lost, and no call.
func TestUpstreams_KeptConnectionIsClosedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		up.AnswerWith(hangsUp(up.Mock, func(before int64) bool { return before > 0 }, 0))
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up": up}})
		for i := range 50 {
			if ans := s.Call(t.Context(), "a", harness.Chat(i%2 == 0, 5, "")); ans.Status != http.StatusOK {
				t.Fatalf("call %d: %d %s", i, ans.Status, ans.Body)
			}
			synctest.Wait()
		}
		if v := snapshot(s).Pools[0].Upstreams[0]; v.State != "up" {
			t.Errorf("the upstream is %s", v.State)
		}
	})
}

// Several kept connections are lost at the same time, as those of calls whose streams have ended together: a call
// that had one of them is not sent once more on another.
func TestUpstreams_KeptConnectionsAreClosedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{FirstToken: time.Second})
		up.AnswerWith(hangsUp(up.Mock, func(before int64) bool { return before > 0 }, 0))
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up": up}})
		var together sync.WaitGroup
		for range 5 {
			together.Go(func() { s.Call(t.Context(), "a", harness.Chat(true, 5, "")) })
		}
		together.Wait()
		synctest.Wait() // five connections are kept
		if ans := s.Call(t.Context(), "a", harness.Chat(true, 5, "")); ans.Status != http.StatusOK {
			t.Errorf("%d %s", ans.Status, ans.Body)
		}
	})
}
