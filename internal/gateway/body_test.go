package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/route"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

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
	aliased := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "t", Weight: 1, Keys: []tenants.Key{{Hash: tenants.HashKey("k")}}}}))(t)
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
