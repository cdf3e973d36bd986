package operations

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// lean_http chooses who speaks HTTP on both sides. Calls, streams, time limits and retries are the same; all other tests of whole
// gateways run both ways by make test-nethttp.
func TestLeanHTTP(t *testing.T) {
	for name, lean := range map[string]bool{"lean": true, "net/http": false} {
		testkit.Virtual(t, name, func(t *testing.T) {
			late := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then is it noticed that the gateway has gone
				<-r.Context().Done()
			})
			through := &carriers{}
			s := harness.New(t, harness.World{
				Mock: mock.Config{TokensPerSecond: 10}, Pool: harness.PoolAt("mock"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)},
				Upstreams: map[string]http.Handler{"late": late},
				Tune: func(c *tenants.Config) {
					c.LeanHTTP = lean
					c.Timeouts.UpstreamAnswer = 3 * time.Second
					slow := harness.PoolAt("late")
					slow.Name = "slow"
					slow.Models = []string{"slow"}
					c.Pools = append(c.Pools, slow)
				},
				Wrap: func(next http.RoundTripper) http.RoundTripper { through.next = next; return through },
			})
			if _, netHTTP := s.Server.(*http.Server); netHTTP == lean {
				t.Errorf("with lean_http %v the server is a %T", lean, s.Server)
			}
			for _, stream := range []bool{false, true} {
				if a := s.Call(t.Context(), "a", harness.Chat(stream, 5, "")); a.Status != http.StatusOK || a.Body == "" {
					t.Errorf("stream %v: %d %s", stream, a.Status, a.Body)
				}
			}
			if through.netHTTP != !lean {
				t.Errorf("with lean_http %v, net/http carries upstream: %v", lean, through.netHTTP)
			}
			began := time.Now()
			a := s.Call(t.Context(), "a", strings.Replace(harness.Chat(false, 5, ""), `"model":"m"`, `"model":"slow"`, 1))
			if took := time.Since(began); a.Status != http.StatusGatewayTimeout || took < 3*time.Second || took > 13*time.Second {
				t.Errorf("an upstream that does not answer: %d after %v %s", a.Status, took, a.Body)
			}
		})
	}
}

// carriers notes whether net/http's Transport carries requests: its answers say to which request they are.
type carriers struct {
	next    http.RoundTripper
	netHTTP bool
}

func (c *carriers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	c.netHTTP = c.netHTTP || err == nil && resp.Request != nil
	return resp, err
}
