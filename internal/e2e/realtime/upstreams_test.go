package realtime

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// dialRealtime opens a session, hears its first event, and hangs up.
func dialRealtime(s *harness.Stack, ctx context.Context, tenant string) (*http.Response, error) {
	conn, resp, err := websocket.Dial(ctx, "http://gateway/v1/realtime?model=m", &websocket.DialOptions{
		HTTPClient: s.Client, HTTPHeader: http.Header{"Authorization": {"Bearer " + tenant}},
	})
	if err != nil {
		return resp, err
	}
	_, first, err := conn.Read(ctx)
	if err == nil && !strings.Contains(string(first), "session.created") {
		s.T.Errorf("a session begins with %s", first)
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	return resp, err
}

// caller is a tenant that may open sessions.
func caller(name string, wait time.Duration) tenants.Tenant {
	t := harness.Tenant(name, 1)
	t.MaxWait = wait
	t.Routes = tenants.RouteInference | tenants.RouteRealtime
	return t
}

// A session goes to another upstream as calls do, and waits as they do.
func TestUpstreams_Realtime(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, mood := range map[string]http.HandlerFunc{
		"500": harness.Status(500), "401": harness.Status(401), "429": harness.Status(429, "Retry-After", "7"), "reset": hangUp, "late": harness.Silence, "refused": nil,
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			bad := harness.NewUpstream(t, mock.Config{})
			others := map[string]http.Handler{"up1": bad}
			if bad.AnswerWith(mood); mood == nil {
				others["up1"] = nil
			}
			s := harness.New(t, harness.World{Pool: harness.PoolOf(1, 100), Tenants: []tenants.Tenant{caller("a", 0)}, Upstreams: others})
			if resp, err := dialRealtime(s, t.Context(), "a"); err != nil {
				t.Errorf("%v %v", resp, err)
			}
			synctest.Wait()
			if n := s.Sum("llmgov_requests_total", map[string]string{"outcome": "ok"}); n != 1 {
				t.Errorf("%d sessions are counted", n)
			}
		})
	}
}

// Where all ask for a pause, a session that may wait does; who may not is told when to
// come back; who goes away has cancelled.
func TestUpstreams_RealtimeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		up.AnswerWith(harness.Status(429, "Retry-After", "20"))
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{caller("a", time.Minute), caller("b", 0)}, Upstreams: map[string]http.Handler{"up1": up}})
		resp, err := dialRealtime(s, t.Context(), "b")
		if err == nil || resp == nil || resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "20" {
			t.Fatalf("who does not wait: %v %v", resp, err)
		}
		time.Sleep(20 * time.Second)
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		if _, err := dialRealtime(s, ctx, "a"); err == nil {
			t.Error("who went away has a session")
		}
		synctest.Wait()
		s.CheckIdle()
		if n := s.Sum("llmgov_requests_total", map[string]string{"outcome": "cancelled"}); n != 1 {
			t.Errorf("%d are counted as cancelled", n)
		}
		time.Sleep(15 * time.Second)
		time.AfterFunc(time.Second, func() { up.AnswerWith(nil) })
		began := time.Now()
		if resp, err := dialRealtime(s, t.Context(), "a"); err != nil || time.Since(began) != 20*time.Second {
			t.Errorf("after %v: %v %v", time.Since(began), resp, err)
		}
		synctest.Wait()
	})
}
