package gateway

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// Each SDK finds the id of a refusal where it looks for it.
func TestRefusal_RequestID(t *testing.T) {
	for d, want := range map[*dialect.Dialect]string{dialect.OpenAI: "", dialect.Responses: "", dialect.Anthropic: "req_1"} {
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "req_1")
		f := refusal{Status: 429, Code: ask.CodeRate, Message: "Later."}
		writeRefusal(w, &f, d, "")
		if got := w.Header().Get("Request-Id"); got != want {
			t.Errorf("%s: request-id %q, want %q", d.Name, got, want)
		}
	}
}

// Only the text of the model changes in a form, wherever it is.
func TestRename_Form(t *testing.T) {
	const model, prompt = "Content-Disposition: form-data; name=\"model\"", "Content-Disposition: form-data; name=\"prompt\""
	const file = "Content-Type: audio/wav\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\""
	tricky := "\r\n--Ax\r\n\r\n--Afast\r\n\r\nfast\r\n-" // looks like delimiters
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://localhost"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("p")}
	cfg.Pools[0].Concurrency = 1
	cfg.Pools[0].Aliases = []tenants.Alias{{Name: "fast", Model: "whisper-large"}}
	aliased := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "t", Weight: 0.001, Keys: []tenants.Key{{Hash: tenants.HashKey("k")}}}}))(t)
	for name, parts := range map[string][]string{
		"alone":                            {model, "fast"},
		"first":                            {model, "fast", prompt, "fast"},
		"behind a file":                    {file, tricky, prompt, "fast", model, "fast"},
		"behind a part that looks like it": {prompt, "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nfast", model, "fast"},
	} {
		var body strings.Builder
		for i := 0; i+1 < len(parts); i += 2 {
			body.WriteString("--B\r\n" + parts[i] + "\r\n\r\n" + parts[i+1] + "\r\n")
		}
		body.WriteString("--B--\r\n")
		world := &world{Policy: &admission.Policy{Snapshot: aliased}}
		c := &call{world: world, route: route.Inference("/audio/transcriptions"), body: []byte(body.String()), r: &http.Request{Header: http.Header{"Content-Type": {"multipart/form-data; boundary=B"}}}}
		if f := c.readHead(); f != nil {
			t.Fatalf("%s: %v", name, f.Message)
		}
		before := slices.Clone(c.form.Parts)
		c.rename(nil)
		for i, p := range c.form.Parts {
			want := string(before[i].Content)
			if p.Name == "model" {
				want = "whisper-large"
			}
			if string(p.Content) != want {
				t.Errorf("%s: %s becomes %q, want %q", name, p.Name, p.Content, want)
			}
		}
	}
}

// Two tries of one call ask the same, also where each draws the boundary of its form
// anew; all else is another call.
func TestAsks(t *testing.T) {
	ask := func(method, target, contentType, body string) uint64 {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		c := &call{r: r, body: []byte(body)}
		c.at = route.Find(r)
		c.route = c.at.Route
		if c.route.Body == dialect.Form {
			if f := c.readHead(); f != nil {
				t.Fatal(f.Message)
			}
		}
		return c.asks()
	}
	form := func(boundary, text string) uint64 {
		return ask("POST", "/v1/audio/transcriptions", "multipart/form-data; boundary="+boundary,
			"--"+boundary+"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"+text+"\r\n--"+boundary+"--\r\n")
	}
	first := ask("POST", "/v1/embeddings", "", `{"a":1}`)
	if ask("POST", "/embeddings", "", `{"a":1}`) != first || form("x", "m") != form("yy", "m") {
		t.Error("a second try asks for something else")
	}
	for i, other := range []uint64{
		ask("POST", "/v1/embeddings", "", `{"a":2}`),
		ask("POST", "/v1/embeddings?a=1", "", `{"a":1}`),
		ask("POST", "/v1/moderations", "", `{"a":1}`),
		ask("POST", "/v1/embeddings", "", ``),
	} {
		if other == first {
			t.Errorf("another call, %d, asks the same", i)
		}
	}
	if form("x", "m") == form("x", "n") {
		t.Error("another form asks the same")
	}
}
