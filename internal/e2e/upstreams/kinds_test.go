package upstreams

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// dialectal is an upstream of another kind: it notes what it is asked, and lets a model
// server answer, by OpenAI's path.
type dialectal struct {
	mock *mock.Server

	mu     sync.Mutex
	asked  []string // guarded by mu, as header
	header http.Header
}

func (d *dialectal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	d.asked = append(d.asked, r.URL.RequestURI())
	d.header = r.Header.Clone()
	d.mu.Unlock()
	path := r.URL.Path
	for _, route := range []string{"/chat/completions", "/embeddings", "/responses"} {
		if strings.HasSuffix(path, route) {
			path = "/v1" + route
		}
	}
	if strings.HasSuffix(path, "/messages") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type":"message","content":[],"usage":{"input_tokens":7,"output_tokens":3}}`))
		return
	}
	r.URL.Path = path
	r.URL.RawQuery = ""
	d.mock.ServeHTTP(w, r)
}

// newDialectal is a stack in front of one upstream of a kind.
func newDialectal(t *testing.T, kind, base string) (*harness.Stack, *dialectal) {
	t.Helper()
	m := testkit.Must(mock.New(mock.Config{}))(t)
	d := &dialectal{mock: m}
	s := harness.New(t, harness.World{
		Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up": d},
		Tune: func(c *tenants.Config) {
			c.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: base, APIKey: "their-key", Kind: kind}}
			c.Pools[0].Aliases = []tenants.Alias{{Name: "fast", Model: "gpt-4o-mini"}}
		},
	})
	return s, d
}

// Azure's own clients call the gateway as they call a resource, and the gateway calls a
// resource as these do, in both of its forms, with the deployment that an alias means.
func TestKinds_Azure(t *testing.T) {
	for name, c := range map[string]struct{ base, chat, embeddings string }{
		"versioned": {"http://up?api-version=2024-10-21", "/openai/deployments/gpt-4o-mini/chat/completions?api-version=2024-10-21", "/openai/deployments/fast-embedder/embeddings?api-version=2024-10-21"},
		"v1":        {"http://up", "/openai/v1/chat/completions", "/openai/v1/embeddings"},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			s, up := newDialectal(t, tenants.Azure, c.base)
			cfg := goopenai.DefaultAzureConfig("a", "http://gateway")
			cfg.HTTPClient = s.Client
			cfg.AzureModelMapperFunc = func(model string) string { return model }
			client := goopenai.NewClientWithConfig(cfg)
			answer, err := client.CreateChatCompletion(t.Context(), goopenai.ChatCompletionRequest{
				Model: "fast", MaxCompletionTokens: 5, Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: "Hi"}},
			})
			if err != nil || answer.Usage.CompletionTokens != 5 || answer.Model != "gpt-4o-mini" {
				t.Fatalf("%+v %v", answer, err)
			}
			testkit.Must(client.CreateEmbeddings(t.Context(), goopenai.EmbeddingRequest{Model: "fast-embedder", Input: "x"}))(t)
			if up.asked[0] != c.chat || up.asked[1] != c.embeddings {
				t.Errorf("the resource is called as %q", up.asked)
			}
			if up.header.Get("Api-Key") != "their-key" || up.header.Get("Authorization") != "" {
				t.Errorf("the resource gets %v", up.header)
			}
			if got := s.Charged("a", "output"); got != 5 {
				t.Errorf("%d output tokens are charged", got)
			}
		})
	}
}

// What a call to a deployment may look like.
func TestKinds_AzurePaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, up := newDialectal(t, tenants.OpenAI, "http://up/v1")
		messages := `"messages":[{"role":"user","content":"Hi"}],"max_tokens":3`
		for _, c := range []struct {
			path, body string
			status     int
			asked      string
		}{
			{"/openai/deployments/fast/chat/completions?api-version=2024-10-21", `{` + messages + `}`, 200, "/v1/chat/completions"},
			{"/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", `{"model":"gpt-4o","stream":true,` + messages + `}`, 200, "/v1/chat/completions"},
			{"/openai/v1/chat/completions?api-version=preview", `{"model":"gpt-4o",` + messages + `}`, 200, "/v1/chat/completions"},
			{"/openai/responses?api-version=2025-03-01-preview", `{"model":"gpt-4o","input":"Hi","max_output_tokens":3}`, 200, "/v1/responses"},
			{"/openai/deployments/fast/chat/completions?api-version=1&model=gpt-4o", `{` + messages + `}`, 400, ""},
			{"/openai/deployments/fast/chat/completions", `{"model":"gpt-4o",` + messages + `}`, 400, ""},
			{"/openai/deployments/fast/chat/completions", `{}`, 400, ""},
			{"/openai/deployments/fast/files", `{}`, 404, ""},
			{"/openai/deployments/fast", `{}`, 404, ""},
			{"/openai/deployments/a%2Fb/chat/completions", `{` + messages + `}`, 404, ""},
			{"/openai/organization/admin_api_keys", `{}`, 404, ""},
		} {
			up.asked = nil
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway"+c.path, strings.NewReader(c.body))
			req.Header.Set("Api-Key", "a")
			resp := testkit.Must(s.Client.Do(req))(t)
			text := harness.ReadAll(resp)
			if resp.StatusCode != c.status {
				t.Errorf("%s %s: %d %s", c.path, c.body, resp.StatusCode, text)
			}
			if asked := strings.Join(up.asked, " "); asked != c.asked {
				t.Errorf("%s is sent to %q, want %q", c.path, asked, c.asked)
			}
		}
	})
}

// Anthropic's routes go to Anthropic with its headers; others are refused for what they
// are, and cost nothing.
func TestKinds_Anthropic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, up := newDialectal(t, tenants.Anthropic, "http://up")
		post := func(path string, header ...string) (*http.Response, string) {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway"+path, strings.NewReader(`{"model":"claude-x","max_tokens":9,"messages":[]}`))
			req.Header.Set("X-Api-Key", "a")
			for i := 0; i+1 < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			resp := testkit.Must(s.Client.Do(req))(t)
			return resp, harness.ReadAll(resp)
		}
		if resp, text := post("/v1/messages"); resp.StatusCode != 200 || up.asked[0] != "/v1/messages" {
			t.Fatalf("%d %s, asked %q", resp.StatusCode, text, up.asked)
		}
		if up.header.Get("X-Api-Key") != "their-key" || up.header.Get("Anthropic-Version") != "2023-06-01" || up.header.Get("Authorization") != "" {
			t.Errorf("the upstream gets %v", up.header)
		}
		post("/v1/messages", "Anthropic-Version", "2099-01-01")
		if got := up.header.Get("Anthropic-Version"); got != "2099-01-01" {
			t.Errorf("the caller's version arrives as %q", got)
		}
		if in, out := s.Charged("a", "input"), s.Charged("a", "output"); in != 14 || out != 6 {
			t.Errorf("%d and %d tokens are charged", in, out)
		}
		resp, text := post("/v1/chat/completions")
		if resp.StatusCode != 404 || harness.ErrorCode(text) != "not_found" || !strings.Contains(text, "up (anthropic)") {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
		if n := len(up.asked); n != 2 {
			t.Errorf("the upstream got %d calls", n)
		}
	})
}
