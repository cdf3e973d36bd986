package route

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
)

func TestFindObject(t *testing.T) {
	for _, tt := range []struct {
		method, url string
		want        string // path of the route; "" is none
	}{
		{"GET", "/v1/files", "/files"},
		{"GET", "/files", "/files"},
		{"GET", "/v1/files/file-1", "/files/{file}"},
		{"GET", "/v1/files/file-1/content", "/files/{file}/content"},
		{"POST", "/v1/vector_stores/vs_1/file_batches/b_1/cancel", "/vector_stores/{vector_store}/file_batches/{file_batch}/cancel"},
		{"GET", "/v1/realtime", "/realtime"},
		{"PUT", "/v1/files/file-1", ""},
		{"DELETE", "/v1/files", ""},
		{"GET", "/v1/files/", ""},
		{"GET", "/v1//files", ""},
		{"GET", "/v1/files//content", ""},
		{"GET", "/v1/files/file-1/", ""},
		{"GET", "/v1/files/../batches", ""},
		{"GET", "/v1/files/..", ""},
		{"GET", "/v1/files/.", ""},
		{"GET", "/v1/files/%2e%2e", ""},
		{"GET", "/v1/files/%2E%2E/content", ""},
		{"GET", "/v1/files/a%2Fcontent", ""},
		{"GET", "/v1/files/%66ile-1", ""},
		{"GET", "/v1/files/a%00", ""},
		{"GET", "/v1/files/a%20b", ""},
		{"GET", "/v1/files/" + strings.Repeat("a", 256), "/files/{file}"},
		{"GET", "/v1/files/" + strings.Repeat("a", 257), ""},
		{"GET", "/v1/v1/files", ""},
		{"GET", "/v1files", ""},
		{"GET", "/v2/files", ""},
		{"GET", "/V1/files", ""},
		{"GET", "/v1/Files", ""},
		{"POST", "/v1/realtime/client_secrets", ""},
		{"POST", "/v1/realtime/sessions", ""},
		{"POST", "/v1/realtime/calls", ""},
		{"POST", "/v1/conversations", ""},
		{"GET", "/v1/conversations/conv_1", ""},
		{"GET", "/v1/organization/users", ""},
		{"GET", "/v1/organization/admin_api_keys", ""},
		{"POST", "/v1/assistants", ""},
		{"POST", "/v1/threads", ""},
		{"GET", "/v1/containers", ""},
		{"GET", "/v1/evals", ""},
		{"GET", "/v1/chat/completions", ""},
		{"GET", "/v1/chat/completions/chatcmpl-1", ""},
		{"POST", "/v1/responses/input_tokens", "/responses/input_tokens"},
		{"POST", "/openai/v1/responses/compact", "/responses/compact"},
		{"GET", "/v1/responses/compact", ""},
		{"POST", "/v1/rerank", "/rerank"},
		{"POST", "/v2/rerank", "/rerank"},
		{"POST", "/v2/chat/completions", ""},
		{"POST", "/v1/x/../chat/completions", ""},
		{"POST", "/v1/acc/gw/openai/chat/completions", ""},
		{"PUT", "/v1/chat/completions", ""},
		{"POST", "//v1/chat/completions", "/chat/completions"},
		{"POST", "/v1//messages/", "/messages"},
		{"POST", "/v1/v1/messages", "/messages"},
		{"GET", "/v1/v1/files/file-1", ""},
		{"POST", "//v1///chat//completions//", "/chat/completions"},
		{"POST", "/v1/messages//count_tokens", "/messages/count_tokens"},
		{"POST", "/openai//deployments/d/chat/completions/", "/chat/completions"},
		{"POST", "/v1/files/", ""},
		{"GET", "//v1/files/file-1", ""},
		{"POST", "/v1/fine_tuning/alpha/graders/run", ""},
		{"GET", "/v1/fine_tuning/checkpoints/x/permissions", ""},
		{"GET", "/v1/fine_tuning", ""},
		{"GET", "/", ""},
		{"GET", "/v1", ""},
	} {
		got := Find(httptest.NewRequest(tt.method, tt.url, nil))
		switch {
		case tt.want == "" && !got.Wrong:
			t.Errorf("%s %s leads to %q, want a 404", tt.method, tt.url, got.Path)
		case tt.want != "" && (got.Wrong || got.Route.Path != tt.want):
			t.Errorf("%s %s: no %s", tt.method, tt.url, tt.want)
		}
	}
}

// Whatever path is sent, what reaches the upstream is a path of the table, to the byte.
func FuzzFind(f *testing.F) {
	for _, p := range []string{"/v1/files/file-1", "/v1/files/../x", "/files/%2e%2e/content", "//files", "/v1/vector_stores/a/files/b/content", "/v1/files/a;b", "/realtime"} {
		f.Add("GET", p)
	}
	f.Fuzz(func(t *testing.T, method, text string) {
		u, err := url.ParseRequestURI(text)
		if err != nil {
			return
		}
		at := Find(&http.Request{Method: method, URL: u})
		if at.Wrong || at.Models || !at.Route.ToObjects() {
			return
		}
		if at.Route.Method != method {
			t.Fatalf("%s %q leads to a route of %s", method, text, at.Route.Method)
		}
		below := strings.TrimPrefix(u.EscapedPath(), "/v1")
		if rest, ok := strings.CutPrefix(u.EscapedPath(), "/openai/"); ok {
			below = "/" + strings.TrimPrefix(rest, "v1/")
		}
		if at.Path != below || path.Clean(at.Path) != at.Path {
			t.Fatalf("%q leads to %q", text, at.Path)
		}
		up := dialect.Address{Base: url.URL{Scheme: "http", Host: "h", Path: "/v1"}}
		if sent := up.URL(at.Path, "", nil); sent != "http://h/v1"+at.Path {
			t.Fatalf("%q is sent as %q", text, sent)
		}
		want := strings.Split(at.Route.Path, "/")
		got := strings.Split(at.Path, "/")
		ids := 0
		for i := range got {
			if strings.HasPrefix(want[i], "{") {
				ids++
			} else if want[i] != got[i] {
				t.Fatalf("%q is taken for %s", text, at.Route.Path)
			}
		}
		if len(want) != len(got) || ids != len(at.IDs) {
			t.Fatalf("%q is taken for %s with ids %q", text, at.Route.Path, at.IDs)
		}
	})
}
