package upstreams

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// A stream that is cancelled before its first delta is charged what may have been produced by then.
func TestAudit_L2_CancelledBeforeTheFirstDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Mock: mock.Config{TokensPerSecond: 40}, Pool: harness.Pool(1_000_000, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		s.Call(t.Context(), "a", harness.Chat(true, 400, "")) // 40 tokens a second is learned
		before := s.Charged("a", "output")
		for name, tt := range map[string]struct {
			after time.Duration
			most  int
			want  int64
		}{
			"soon":  {2500 * time.Millisecond, 4000, 100},
			"bound": {90 * time.Second, 1000, 1000},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tt.after)
			if ans := s.Call(ctx, "a", harness.Chat(true, tt.most, `,"mock":{"first_token_ms":100000}`)); ans.Err == nil {
				t.Errorf("%s: answered with %d %s", name, ans.Status, ans.Body)
			}
			cancel()
			synctest.Wait()
			took := s.Charged("a", "output") - before
			before += took
			if took < tt.want || took > tt.want+10 {
				t.Errorf("%s: %d tokens are charged, want %d", name, took, tt.want)
			}
		}
	})
}

// A stream that the upstream ends before its first delta is charged its prompt.
func TestAudit_L2_OutagesAreFree(t *testing.T) {
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})})
	s.Post("/v1/chat/completions", sockets.Chat(`,"stream":true`))
	s.WaitIdle()
	if took := s.Charged("output"); took != 0 {
		t.Errorf("%d tokens are charged", took)
	}
}
