package upstreams

import (
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Data.URL+"/v1/chat/completions", strings.NewReader(`{"model":"gpt-4o","max_tokens":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+sockets.Key("acme"))
	req.Header.Set("X-Llmgov-Priority", "background")
	req.Header.Set("X-Llm-D-Inference-Fairness-Id", "somebody else")
	resp, err := s.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for name, want := range map[string]string{"X-Llm-D-Inference-Fairness-Id": "acme", "X-Llm-D-Inference-Objective": "t", "X-Priority": "background"} {
		if v := got.Values(name); len(v) != 1 || v[0] != want {
			t.Errorf("%s: %q, not %s", name, v, want)
		}
	}
}
