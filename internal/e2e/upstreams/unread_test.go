package upstreams

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// An upstream that reads nothing of a long prompt does not begin its answer either: the call goes to another upstream in time.
func TestUpstreams_PromptIsNotRead(t *testing.T) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stands := harness.NewUpstream(t, mock.Config{})
				left := make(chan struct{})
				stands.AnswerWith(func(http.ResponseWriter, *http.Request) { <-left })
				p := harness.PoolOf(1)
				p.Upstreams = []tenants.PoolUpstream{{Name: "mock", Weight: 1, Order: 1}, {Name: "up1", Weight: 1}}
				s := harness.New(t, harness.World{
					Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, HTTPVersion: version,
					Upstreams: map[string]http.Handler{"up1": stands},
					Tune:      func(c *tenants.Config) { c.Timeouts.UpstreamAnswer = time.Minute },
				})
				defer time.Sleep(time.Second) // in which servers let go of connections with unread bytes
				defer close(left)
				began := time.Now()
				ans := s.Call(t.Context(), "a", harness.Chat(false, 5, `,"user":"`+strings.Repeat("x", 4<<20)+`"`))
				took := time.Since(began)
				if ans.Status != http.StatusOK || took < time.Minute || took > 90*time.Second {
					t.Errorf("%d after %v: %s", ans.Status, took, ans.Body)
				}
				if n := s.Sum("llmgov_upstream_errors_total", map[string]string{"class": "timeout"}); n != 1 {
					t.Errorf("%d failures are counted as late", n)
				}
			})
		})
	}
}
