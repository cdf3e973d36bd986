package main

import (
	"fmt"
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
		case "/listed/organization/projects/proj_1/rate_limits":
			if r.Header.Get("Authorization") != "Bearer admin" {
				w.WriteHeader(http.StatusForbidden)
			}
			page := `{"object": "list", "data": [{"object": "project.rate_limit", "id": "rl-a", "model": "a", "max_requests_per_1_minute": 1, "max_tokens_per_1_minute": 2}], "last_id": "rl-a", "has_more": true}`
			if r.URL.RawQuery == "after=rl-a" {
				page = `{"data": [{"id": "rl-o3", "model": "o3", "max_requests_per_1_minute": 500, "max_tokens_per_1_minute": 30000, "max_images_per_1_minute": 10}], "has_more": false}`
			}
			fmt.Fprint(w, page)
		case "/v1/organizations/rate_limits":
			fmt.Fprint(w, `{"data": [{"type": "rate_limit", "group_type": "batch", "models": null, "limits": [{"type": "enqueued_batch_requests", "value": 9}]},
				{"type": "rate_limit", "group_type": "model_group", "models": ["sonnet", "sonnet-2026"], "limits": [{"type": "requests_per_minute", "value": 50},
				{"type": "input_tokens_per_minute_cache_aware", "value": 30000}, {"type": "output_tokens_per_minute", "value": 8000}]}], "next_page": null}`)
		case "/v1/organizations/workspaces/wrkspc_1/rate_limits":
			if r.Header.Get("X-Api-Key") != "admin" || r.Header.Get("Anthropic-Version") == "" {
				w.WriteHeader(http.StatusForbidden)
			}
			fmt.Fprint(w, `{"data": [{"group_type": "model_group", "models": ["sonnet"], "limits": [{"type": "output_tokens_per_minute", "value": 4000, "org_limit": 8000}]}]}`)
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
  listed: {base_url: URL/listed, limits_api: {key: admin, project: proj_1}}
  space: {base_url: URL, kind: anthropic, limits_api: {key: admin, workspace: wrkspc_1}}
  lost: {base_url: URL/listed, limits_api: {key: admin, project: proj_2}}
pools:
  a: {models: ["o*", o3], rpm: 120, upstreams: [{name: azure, models: {o3: o3-prod}}, {name: other}, {name: listed}, {name: lost}]}
  b: {models: [sonnet], upstreams: [{name: claude, itpm: 100000}, {name: space, itpm: 100000}]}
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
Limits that upstreams declare, by one call each or in their lists of limits:

  POOL  UPSTREAM  MODEL    LIMIT  CONFIGURED  DECLARED
  a     azure     o3-prod  rpm    120         120
  a     other     o3                          it answers 401 Unauthorized
  a     listed    o3       tpm    none        30000
  a     listed    o3       rpm    120         500
  a     lost      o3                          its list of limits answers 401 Unauthorized
  b     claude    sonnet   itpm   100000      80000
  b     claude    sonnet   otpm   none        16000
  b     space     sonnet   rpm    none        50
  b     space     sonnet   itpm   100000      30000
  b     space     sonnet   otpm   none        4000
  c     other                                 not asked: models names none without *
`, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
