package upstreams

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// shapes are calls in the two shapes of APIs.
var shapes = []struct{ path, body string }{
	{"/chat/completions", harness.Chat(false, 5, "")},
	{"/messages", harness.Chat(false, 5, "")},
}

// Headers of agents reach upstreams of their kind, and no others; those by which a caller could speak for somebody else reach none.
func TestAgents_Headers(t *testing.T) {
	sent := []string{
		"Anthropic-Beta", "Anthropic-Next-Month", "X-Claude-Code-Session-Id", "X-App",
		"X-Codex-Turn-State", "X-Codex-Beta-Features", "X-Codex-Next-Month", "Originator", "Session-Id", "Thread-Id",
		"X-Codex-Turn-Metadata", "Anthropic-Organization-Id", "Anthropic-Workspace", "Anthropic-Api-Key", "X-Codex-Access-Token", "X-App-Name", "Session",
		"X-Openrouter-Title", "X-Openrouter-Next-Month", "X-Session-Affinity", "X-Session-Id", "X-Grok-Conv-Id", "X-Openrouter-Api-Key", "X-Openrouter-Fallback-Url", "X-Opencode-Project", "X-Openrouter",
	}
	for _, c := range []struct{ kind, base, path, want string }{
		{tenants.OpenAI, "http://up/v1", "/responses", "Anthropic-Beta X-Codex-Turn-State X-Codex-Beta-Features X-Codex-Next-Month Originator Session-Id Thread-Id X-Openrouter-Title X-Openrouter-Next-Month X-Session-Affinity X-Session-Id X-Grok-Conv-Id"},
		{tenants.Azure, "http://up", "/chat/completions", "Anthropic-Beta X-Codex-Turn-State X-Codex-Beta-Features X-Codex-Next-Month Originator Session-Id Thread-Id"},
		{tenants.Anthropic, "http://up", "/messages", "Anthropic-Beta Anthropic-Next-Month X-Claude-Code-Session-Id X-App"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, up := newDialectal(t, c.kind, c.base)
			defer s.Close()
			header := []string{}
			for _, name := range sent {
				header = append(header, name, "v")
			}
			body := `{"model":"m","max_tokens":5,"input":"a","messages":[{"role":"user","content":"a"}]}`
			s.CallTo(t.Context(), c.path, "a", body, append(header, "X-Codex-Long", strings.Repeat("v", 5000))...).WantOK(t, c.kind)
			got := []string{}
			for _, name := range append(sent, "X-Codex-Long") {
				if up.header[name] != nil {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s got %s\nwant %s", c.kind, got, c.want)
			}
		})
	}
}

// The caller hears from the upstream by which state its turn goes on, that it should not retry, and how long the upstream asks it to stay
// away, although the pool's pause is shorter.
func TestAgents_Answers(t *testing.T) {
	for _, c := range []struct {
		status int
		said   []string
		want   map[string]string
	}{
		{500, []string{"X-Should-Retry", "false"}, map[string]string{"X-Should-Retry": "false"}},
		{502, []string{"X-Should-Retry", "true"}, map[string]string{"X-Should-Retry": ""}},
		{400, []string{"X-Should-Retry", "false", "X-Codex-Turn-State", "s"}, map[string]string{"X-Should-Retry": "false", "X-Codex-Turn-State": "s"}},
		{429, []string{"Retry-After", "3600"}, map[string]string{"Retry-After": "3600"}},
		{429, []string{"Retry-After-Ms", "700000", "Retry-After", "700"}, map[string]string{"Retry-After": "700", "Retry-After-Ms": "700000"}},
		{529, []string{"Retry-After", "7200"}, map[string]string{"Retry-After": "7200"}},
		{503, []string{"Retry-After", "30"}, map[string]string{"Retry-After": "30"}},
	} {
		for _, shape := range shapes {
			synctest.Test(t, func(t *testing.T) {
				up := harness.NewUpstream(t, mock.Config{})
				up.AnswerWith(harness.Status(c.status, c.said...))
				s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": up}})
				defer s.Close()
				ans := s.CallTo(t.Context(), shape.path, "a", shape.body)
				if ans.Status != c.status {
					t.Errorf("%s: %d, want %d", shape.path, ans.Status, c.status)
				}
				for name, want := range c.want {
					if got := ans.Header.Get(name); got != want {
						t.Errorf("%s, status %d: %s is %q, want %q", shape.path, c.status, name, got, want)
					}
				}
			})
		}
	}
}

// An upstream may take ten minutes to begin an answer that is no stream, and two to begin a stream, unless its pool or a reload says
// otherwise.
func TestAgents_TimeToTheHead(t *testing.T) {
	for _, version := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			up := harness.NewUpstream(t, mock.Config{})
			w := harness.World{
				Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": up}, HTTPVersion: version,
			}
			s := harness.New(t, w)
			defer s.Close()
			check := func(stream, long bool, takes time.Duration, want int, after time.Duration) {
				t.Helper()
				up.AnswerWith(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					select {
					case <-time.After(takes):
						_, _ = w.Write([]byte(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`))
					case <-r.Context().Done():
					}
				})
				extra := ""
				if long {
					extra = `,"user":"` + strings.Repeat("x", 100<<10) + `"`
				}
				began := time.Now()
				ans := s.Call(t.Context(), "a", harness.Chat(stream, 5, extra))
				if took := time.Since(began).Round(time.Second); ans.Status != want || took != after {
					t.Errorf("HTTP/%d, stream %v, an answer after %v: %d after %v, want %d after %v", version, stream, takes, ans.Status, took, want, after)
				}
			}
			check(false, false, 590*time.Second, 200, 590*time.Second)
			check(false, true, 590*time.Second, 200, 590*time.Second)
			check(false, false, 700*time.Second, 504, 600*time.Second)
			check(false, true, 700*time.Second, 504, 600*time.Second)
			check(true, false, 700*time.Second, 504, 120*time.Second)
			w.Pool.UpstreamAnswer = 30 * time.Second
			cfg := w.Config()
			cfg.Timeouts.UpstreamHeader = 20 * time.Second
			snap := testkit.Must(tenants.Build(cfg, w.Tenants))(t)
			s.Apply(snap)
			time.Sleep(10 * time.Minute) // the upstream is tried again
			check(false, false, 40*time.Second, 504, 30*time.Second)
			check(true, false, 40*time.Second, 504, 20*time.Second)
		})
	}
}

// asks is the answer to a request of an agent that is no call.
func asks(t *testing.T, s *harness.Stack, method, path, key string, header ...string) harness.Answer {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), method, "http://gateway"+path, nil))(t)
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := testkit.Must(s.Client.Do(req))(t)
	return harness.Answer{Status: resp.StatusCode, Header: resp.Header, Body: harness.ReadAll(resp)}
}

// At their start agents ask for what no call needs: it is answered at once, in the shape that they read.
func TestAgents_Start(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.Pool(0, 0, 10)
		p.Models = []string{"claude-x", "gpt-y"}
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		defer s.Close()

		upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket"}
		for _, path := range []string{"/v1/responses", "/responses", "/v1/messages", "/v1/chat/completions"} {
			if ans := asks(t, s, "GET", path, "a", upgrade...); ans.Status != http.StatusUpgradeRequired || ans.Header.Get("Upgrade") != "websocket" {
				t.Errorf("a websocket of %s: %d, Upgrade %q", path, ans.Status, ans.Header.Get("Upgrade"))
			}
			if ans := asks(t, s, "GET", path, "a"); ans.Status != http.StatusNotFound {
				t.Errorf("GET %s: %d", path, ans.Status)
			}
		}
		if ans := asks(t, s, "GET", "/v1/none", "a", upgrade...); ans.Status != http.StatusNotFound {
			t.Errorf("a websocket of no route: %d", ans.Status)
		}

		before := s.Sum("llmgov_requests_total", nil)
		for _, base := range []string{"/", "//", "/v1", "/v1/"} {
			if ans := asks(t, s, "HEAD", base, ""); ans.Status != http.StatusOK {
				t.Errorf("HEAD %s: %d", base, ans.Status)
			}
		}
		if n := s.Sum("llmgov_requests_total", nil) - before; n != 0 {
			t.Errorf("HEAD / counts as %d requests", n)
		}
		if ans := asks(t, s, "HEAD", "/v1/none", "a"); ans.Status != http.StatusNotFound {
			t.Errorf("HEAD of another path: %d", ans.Status)
		}

		anthropic := []string{"Anthropic-Version", "2023-06-01"}
		list := asks(t, s, "GET", "/v1/models?limit=1000", "a", anthropic...)
		one := asks(t, s, "GET", "/v1/models/gpt-y/", "a", anthropic...)
		got := fmt.Sprint(
			gjson.Get(list.Body, "data.#.display_name"), gjson.Get(list.Body, "data.#.type"), gjson.Get(list.Body, "data.0.created_at"),
			gjson.Get(list.Body, "has_more"), gjson.Get(list.Body, "first_id"), gjson.Get(list.Body, "last_id"), gjson.Get(one.Body, "display_name"),
		)
		if want := `["claude-x","gpt-y"]["model","model"]1970-01-01T00:00:00Zfalseclaude-xgpt-ygpt-y`; strings.ReplaceAll(got, " ", "") != want {
			t.Errorf("models for Anthropic's SDK: %s, want %s", got, want)
		}
		if ans := asks(t, s, "GET", "/v1/models", "nobody", anthropic...); gjson.Get(ans.Body, "error.type").Str != "authentication_error" {
			t.Errorf("a wrong key: %s", ans.Body)
		}
		if ans := asks(t, s, "GET", "/v1/models", "a"); gjson.Get(ans.Body, "data.0.display_name").Exists() || gjson.Get(ans.Body, "has_more").Exists() {
			t.Errorf("models for OpenAI's SDK: %s", ans.Body)
		}
	})
}
