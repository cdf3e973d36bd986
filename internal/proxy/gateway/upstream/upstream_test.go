package upstream

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// Where routes are at each kind of upstream, and under which key.
func TestUpstreamURL(t *testing.T) {
	for _, c := range []struct {
		kind, base, path, query, want string
	}{
		{tenants.OpenAI, "https://api.openai.com/v1", "/chat/completions", "", "https://api.openai.com/v1/chat/completions"},
		{tenants.OpenAI, "http://h", "/messages", "beta=true", "http://h/messages?beta=true"},
		{tenants.Azure, "https://x.openai.azure.com", "/chat/completions", "", "https://x.openai.azure.com/openai/v1/chat/completions"},
		{tenants.Azure, "https://x.openai.azure.com/openai/v1", "/files", "limit=2", "https://x.openai.azure.com/openai/v1/files?limit=2"},
		{tenants.Azure, "https://x.openai.azure.com/openai", "/embeddings", "", "https://x.openai.azure.com/openai/v1/embeddings"},
		{tenants.Azure, "https://x.openai.azure.com?api-version=2024-10-21", "/chat/completions", "", "https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"},
		{tenants.Azure, "https://x.openai.azure.com/openai?api-version=2024-10-21", "/audio/speech", "", "https://x.openai.azure.com/openai/deployments/gpt-4o/audio/speech?api-version=2024-10-21"},
		{tenants.Azure, "https://apim/team?api-version=2024-10-21", "/responses", "", "https://apim/team/openai/responses?api-version=2024-10-21"},
		{tenants.Azure, "https://x.openai.azure.com?api-version=v", "/files", "after=file-1", "https://x.openai.azure.com/openai/files?after=file-1&api-version=v"},
		{tenants.Azure, "https://x.openai.azure.com?api-version=v", "/realtime", "model=other", "https://x.openai.azure.com/openai/realtime?api-version=v&deployment=gpt-4o"},
		{tenants.Azure, "https://x.openai.azure.com", "/realtime", "model=gpt-4o", "https://x.openai.azure.com/openai/v1/realtime?model=gpt-4o"},
		{tenants.Azure, "https://x.openai.azure.com/openai/v1?api-version=preview", "/responses", "", "https://x.openai.azure.com/openai/v1/responses?api-version=preview"},
		{tenants.Anthropic, "https://api.anthropic.com", "/messages", "", "https://api.anthropic.com/v1/messages"},
		{tenants.Anthropic, "https://api.anthropic.com/v1", "/messages/count_tokens", "", "https://api.anthropic.com/v1/messages/count_tokens"},
		{tenants.Anthropic, "https://proxy/anthropic/v1", "/messages", "", "https://proxy/anthropic/v1/messages"},
	} {
		list := testkit.Must(New([]tenants.Upstream{{Name: "u", Kind: c.kind, BaseURL: c.base, APIKey: "k"}}))(t)
		query := testkit.Must(url.ParseQuery(c.query))(t)
		if got := list["u"].Address.URL(c.path, "gpt-4o", query); got != c.want {
			t.Errorf("%s %s at %s: %s, want %s", c.kind, c.path, c.base, got, c.want)
		}
		h := http.Header{}
		list["u"].Sign(h)
		name := map[string]string{tenants.OpenAI: "Authorization", tenants.Azure: "Api-Key", tenants.Anthropic: "X-Api-Key"}[c.kind]
		want := "k"
		if c.kind == tenants.OpenAI {
			want = "Bearer k"
		}
		if h.Get(name) != want {
			t.Errorf("%s is sent %v", c.kind, h)
		}
	}
}

// Which kinds have which routes. A model cannot lead out of its place in a path.
func TestUpstreamServes(t *testing.T) {
	list := testkit.Must(New([]tenants.Upstream{
		{Name: "openai", Kind: tenants.OpenAI, BaseURL: "http://h"},
		{Name: "v1", Kind: tenants.Azure, BaseURL: "http://h"},
		{Name: "classic", Kind: tenants.Azure, BaseURL: "http://h?api-version=1"},
		{Name: "anthropic", Kind: tenants.Anthropic, BaseURL: "http://h"},
	}))(t)
	for _, c := range []struct {
		path, model string
		want        [4]bool
	}{
		{"/chat/completions", "m", [4]bool{true, true, true, false}},
		{"/messages", "m", [4]bool{true, false, false, true}},
		{"/messages/count_tokens", "m", [4]bool{true, false, false, true}},
		{"/moderations", "m", [4]bool{true, false, false, false}},
		{"/images/variations", "m", [4]bool{true, false, false, false}},
		{"/responses", "a/b", [4]bool{true, true, true, false}},
		{"/chat/completions", "a/b", [4]bool{true, true, false, false}},
		{"/embeddings", "..", [4]bool{true, true, false, false}},
		{"/embeddings", "", [4]bool{true, true, false, false}},
		{"/audio/speech", "m?x=1", [4]bool{true, true, false, false}},
	} {
		for i, name := range []string{"openai", "v1", "classic", "anthropic"} {
			if got := list[name].Serves(route.Inference(c.path), c.model); got != c.want[i] {
				t.Errorf("%s serves %s of %q: %v", name, c.path, c.model, got)
			}
		}
	}
}
