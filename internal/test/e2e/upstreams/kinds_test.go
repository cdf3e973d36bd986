// Package upstreams tests the choice of upstreams, failover, breakers, and answers that upstreams
// should not give.
package upstreams

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
	goopenai "github.com/sashabaranov/go-openai"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

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

// named is an upstream that keeps the models by which it is asked, in bodies and paths, and the bodies.
type named struct {
	*harness.Upstream
	mu     sync.Mutex
	asked  []string
	bodies []string
}

func (n *named) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	n.mu.Lock()
	n.asked = append(n.asked, r.URL.Path+" "+modelIn(r.Header.Get("Content-Type"), text))
	n.bodies = append(n.bodies, string(text))
	n.mu.Unlock()
	n.Upstream.ServeHTTP(w, r)
}

// modelIn is the model that a JSON body or a form names.
func modelIn(contentType string, text []byte) string {
	kind, params, _ := mime.ParseMediaType(contentType)
	if kind == "multipart/form-data" {
		form, err := multipart.NewReader(bytes.NewReader(text), params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			return err.Error()
		}
		return strings.Join(form.Value["model"], ",")
	}
	var body struct{ Model string }
	if err := json.Unmarshal(text, &body); err != nil {
		return err.Error()
	}
	return body.Model
}

// A call is sent to each upstream by its own name of the model, also when it is sent on from one to the other, and is
// otherwise the same byte for byte.
func TestUpstreams_NamesOfTheirOwn(t *testing.T) {
	long := strings.Repeat("word ", 10_000) // in memory that is used again
	for name, c := range map[string]struct {
		path, contentType, body string
	}{
		"chat":        {body: `{"messages":[{"role":"user","content":"m"}], "model" : "m","max_tokens":9}`},
		"by alias":    {body: `{"model":"fast","messages":[{"role":"user","content":"fast"}],"max_tokens":9}`},
		"cut short":   {body: `{"max_tokens":900,"messages":[{"role":"user","content":"m"}],"model":"m","stream":true}`},
		"long":        {body: `{"model":"m","messages":[{"role":"user","content":"` + long + `"}],"max_tokens":9}`},
		"in a form":   {path: "/v1/audio/transcriptions", contentType: "multipart/form-data; boundary=B", body: harness.CRLF("--B\nContent-Disposition: form-data; name=\"model\"\n\nm\n--B\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\n\nRIFF m\n--B--\n")},
		"of the path": {path: "/openai/deployments/m/chat/completions?api-version=2024-10-21", body: `{"messages":[{"role":"user","content":"m"}],"max_tokens":9}`},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			first := &named{Upstream: harness.NewUpstream(t, mock.Config{})}
			second := &named{Upstream: harness.NewUpstream(t, mock.Config{})}
			third := &named{Upstream: harness.NewUpstream(t, mock.Config{})}
			first.AnswerWith(harness.Status(500))
			second.AnswerWith(harness.Status(500))
			p := harness.PoolOf(1, 1000, 100, 1)
			p.Upstreams = p.Upstreams[1:]
			p.Upstreams[0].Models = map[string]string{"m": `my-"m"`}
			p.Upstreams[2].Models = map[string]string{"m": "deployed", "other": "x"}
			p.Models = []string{"m", "other", "fast"}
			p.Aliases = []tenants.Alias{{Name: "fast", Model: "m"}}
			who := harness.Tenant("a", 1)
			who.MaxOutputTokens = 50
			s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": first, "up2": second, "up3": third}})
			path := c.path
			if path == "" {
				path = "/v1/chat/completions"
			}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway"+path, strings.NewReader(c.body))
			req.Header.Set("Authorization", "Bearer a")
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			resp := testkit.Must(s.Client.Do(req))(t)
			if text := harness.ReadAll(resp); resp.StatusCode != 200 {
				t.Fatalf("%d %s", resp.StatusCode, text)
			}
			at := "/v1/chat/completions"
			if c.contentType != "" {
				at = path
			}
			for i, want := range []struct {
				at   *named
				name string
			}{{first, `my-"m"`}, {second, "m"}, {third, "deployed"}} {
				if got := []string{at + " " + want.name}; !slices.Equal(want.at.asked, got) {
					t.Errorf("upstream %d was asked for %q, want %q", i+1, want.at.asked, got)
				}
			}
			if c.contentType != "" {
				return
			}
			for i, n := range []*named{first, third} {
				name := []string{`"my-\"m\""`, `"deployed"`}[i]
				if got := strings.Replace(n.bodies[0], name, `"m"`, 1); got != second.bodies[0] {
					t.Errorf("upstream %d got %s, want %s", 2*i+1, got, second.bodies[0])
				}
			}
		})
	}
}

// An Azure resource has the deployment in the path, by its own name.
func TestUpstreams_NamesInPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		azure := &named{Upstream: harness.NewUpstream(t, mock.Config{})}
		azure.AnswerWith(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		})
		w := harness.World{Pool: harness.PoolAt("azure"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"azure": azure}}
		w.Pool.Upstreams[0].Models = map[string]string{"m": "my-deployment"}
		w.Tune = func(cfg *tenants.Config) {
			cfg.Upstreams[1].BaseURL = "http://azure?api-version=2024-10-21"
			cfg.Upstreams[1].Kind = tenants.Azure
		}
		s := harness.New(t, w)
		s.Call(t.Context(), "a", `{"model":"m","messages":[],"max_tokens":9}`).WantOK(t)
		if want := []string{"/openai/deployments/my-deployment/chat/completions my-deployment"}; !slices.Equal(azure.asked, want) {
			t.Errorf("it was asked for %q, want %q", azure.asked, want)
		}
	})
}

// A pool's headers tell the upstream whose call it is; what a client says in one of them does not count.
func TestPoolHeaders(t *testing.T) {
	var got http.Header
	s := sockets.New(t, sockets.World{
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Clone()
			_, _ = w.Write([]byte(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`))
		}),
		Pool: sockets.Pool(func(p *tenants.Pool) {
			p.Headers = []tenants.Header{
				{Name: "X-Llm-D-Inference-Fairness-Id", Value: "{tenant}"},
				{Name: "X-Llm-D-Inference-Objective", Value: "{tier}"},
				{Name: "X-Priority", Value: "{priority}"},
			}
		}),
	})
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, s.Data.URL+"/v1/chat/completions", strings.NewReader(`{"model":"gpt-4o","max_tokens":1}`)))(t)
	req.Header.Set("Authorization", "Bearer "+sockets.Key("acme"))
	req.Header.Set("X-Llmgov-Priority", "background")
	req.Header.Set("X-Llm-D-Inference-Fairness-Id", "somebody else")
	resp := testkit.Must(s.Client.Do(req))(t)
	resp.Body.Close()
	for name, want := range map[string]string{"X-Llm-D-Inference-Fairness-Id": "acme", "X-Llm-D-Inference-Objective": "t", "X-Priority": "background"} {
		if v := got.Values(name); len(v) != 1 || v[0] != want {
			t.Errorf("%s: %q, not %s", name, v, want)
		}
	}
}
