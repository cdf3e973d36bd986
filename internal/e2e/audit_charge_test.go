package e2e

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// A stream that is cancelled before its first delta is charged what may have been produced by then.
func TestAudit_L2_CancelledBeforeTheFirstDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, world{mock: mock.Config{TokensPerSecond: 40}, pool: pool(1_000_000, 0, 0), tenants: []tenants.Tenant{tenant("a", 1)}})
		defer s.close()
		s.call(t.Context(), "a", chat(true, 400, "")) // 40 tokens a second is learned
		before := s.charged("a", "output")
		for name, tt := range map[string]struct {
			after time.Duration
			most  int
			want  int64
		}{
			"soon":  {2500 * time.Millisecond, 4000, 100},
			"bound": {90 * time.Second, 1000, 1000},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tt.after)
			if ans := s.call(ctx, "a", chat(true, tt.most, `,"mock":{"first_token_ms":100000}`)); ans.err == nil {
				t.Errorf("%s: answered with %d %s", name, ans.status, ans.body)
			}
			cancel()
			synctest.Wait()
			took := s.charged("a", "output") - before
			before += took
			if took < tt.want || took > tt.want+10 {
				t.Errorf("%s: %d tokens are charged, want %d", name, took, tt.want)
			}
		}
		s.checkIdle()
	})
}

// A stream that the upstream ends before its first delta is charged its prompt.
func TestAudit_L2_OutagesAreFree(t *testing.T) {
	s := newSDKStack(t, sdkWorld{upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})})
	s.post("/v1/chat/completions", sdkChat(`,"stream":true`))
	s.waitIdle()
	if took := s.charged("output"); took != 0 {
		t.Errorf("%d tokens are charged", took)
	}
}
