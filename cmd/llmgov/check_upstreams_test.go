package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/tenants"
)

// What is configured stands beside what an upstream declares; one that refuses the call, and a pool without a model to name, say so.
func TestCheck_Upstreams(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/azure/openai/v1/chat/completions":
			w.Header().Set("X-Ratelimit-Limit-Requests", "20")
		case "/v1/messages":
			w.Header().Set("Anthropic-Ratelimit-Input-Tokens-Limit", "80000")
			w.Header().Set("Anthropic-Ratelimit-Output-Tokens-Limit", "16000")
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer provider.Close()
	config := strings.ReplaceAll(`
upstreams:
  azure: {base_url: URL/azure, kind: azure}
  claude: {base_url: URL, kind: anthropic}
  other: {base_url: URL}
pools:
  a: {models: ["o*", o3], rpm: 120, upstreams: [{name: azure, models: {o3: o3-prod}}, {name: other}]}
  b: {models: [sonnet], upstreams: [{name: claude, itpm: 100000}]}
  c: {models: ["*"], upstream: other}
`, "URL", provider.URL)
	snap, err := tenants.LoadFS(fstest.MapFS{"llmgov.yaml": {Data: []byte(config)}, "tenants/a.yaml": {Data: []byte("tiers: {t: {}}\ntenants: {a: {tier: t, keys: [sha256:b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c]}}")}}, "llmgov.yaml", tenants.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := writeDeclared(t.Context(), &out, snap.Config(), http.DefaultTransport); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`
Limits that upstreams declare, by one call each:

  POOL  UPSTREAM  MODEL    LIMIT  CONFIGURED  DECLARED
  a     azure     o3-prod  rpm    120         120
  a     other     o3                          it answers 401 Unauthorized
  b     claude    sonnet   itpm   100000      80000
  b     claude    sonnet   otpm   none        16000
  c     other                                 not asked: models names none without *
`, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
