package readers

import (
	"bytes"
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// seen are the ids of objects that the tenant has at the upstream. The last spans blocks of 64 bytes, at which a scan looks.
var seen = []string{"mine", "my-file" + strings.Repeat("/0123456789abcde", 8)}

// referring are the keys whose texts are ids, wherever they stand.
var referring = []string{
	"file_id", "file_ids", "input_file_id", "training_file", "validation_file", "previous_response_id", "vector_store_id", "vector_store_ids",
	"batch_id", "container", "container_id", "part_ids", "cached_content", "skill_id",
}

// tuning are those of them that mean nothing to the routes to which bodies are sent.
var tuning = []string{"training_file", "validation_file"}

// governed compares a document with what the gateway itself reads of the body: whether it is streamed, and the
// ids to which it refers.
func governed(t *testing.T, body []byte, d document) (problem string) {
	t.Helper()
	own, err := head.Read(bytes.TrimPrefix(body, []byte("\ufeff"))) // a mark before a body is left out, before it is read
	if err != nil {
		t.Fatalf("the gateway has forwarded what it does not read: %s\n%q", err.Message, body)
	}
	if own.Stream != (d["stream"] == true) {
		return "a stream where the gateway does not, or the other way round"
	}
	known, err := own.References()
	if err != nil { // of keys that mean nothing there
		return ""
	}
	for _, ref := range references(d, "", false) {
		if !slices.Contains(known, ref) {
			return "a reference to " + ref.ID + " by " + ref.Key + ", which the gateway does not read"
		}
	}
	return ""
}

// unseen says to which object that the tenant does not have a document refers. Items are looked up by responses only.
func unseen(path string, d document) string {
	if d["conversation"] != nil {
		return "a conversation"
	}
	for _, ref := range references(d, "", false) {
		means := path == "/responses" || ref.Key != "id" && !slices.Contains(tuning, ref.Key)
		if means && !slices.Contains(seen, ref.ID) {
			return "the object " + ref.ID + " by " + ref.Key
		}
	}
	return ""
}

// references are the ids to which a value under a key refers. listed means that it is an element of a list there.
func references(v any, key string, listed bool) (found []head.Reference) {
	switch v := v.(type) {
	case string:
		if slices.Contains(referring, key) {
			found = append(found, head.Reference{Key: key, ID: v})
		}
	case []any:
		for _, item := range v {
			found = append(found, references(item, key, true)...)
		}
	case document:
		looks := looksUp(v, key, listed)
		for key, value := range v {
			name := named(key)
			id, isText := value.(string)
			switch {
			case key == "metadata", key == "attributes": // the caller's own
			case name == "skill_id" && v["type"] == "anthropic": // everybody's
			case name == "id" && isText && looks:
				found = append(found, head.Reference{Key: name, ID: id})
			default:
				found = append(found, references(value, name, false)...)
			}
		}
	}
	return found
}

// named is the name that a reader ignoring case takes a key for.
func named(key string) string {
	for _, name := range slices.Concat(referring, []string{"id", "input", "audio"}) {
		if strings.EqualFold(key, name) {
			return name
		}
	}
	return ""
}

// looksUp reports whether the upstream looks up an object under a key by its id.
func looksUp(d document, key string, listed bool) bool {
	kind, typed := d["type"].(string)
	switch {
	case !listed && (key == "container" || key == "audio"), kind == "item_reference", kind == "image_generation_call":
		return true
	case kind == "reasoning":
		return cmp.Or(d["encrypted_content"], any("")) == ""
	}
	return listed && key == "input" && !typed && d["content"] == nil
}

// most is the tenant's max_output_tokens, and granted its one model.
const (
	most    = 100
	granted = "ok"
)

// front is a gateway with a tenant that may use one model, and what it forwarded last.
type front struct {
	gateway *gateway.Gateway
	sent    *forwarded
}

// forwarded is a body as the upstream gets it.
type forwarded struct {
	kind string
	body []byte
}

func newFront(t testing.TB) *front {
	t.Helper()
	f := &front{}
	owned := testkit.Must(objects.Open("", slog.New(slog.DiscardHandler)))(t)
	for _, id := range seen {
		testkit.OK(t, owned.Own(t.Context(), objects.Key{Upstream: "up", ID: id}, objects.Entry{Kind: objects.File, Owner: "acme"}))
	}
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: "http://up/v1"}}
	pool := tenants.DefaultPool("main", granted, "bad")
	pool.Upstreams = []tenants.PoolUpstream{{Name: "up"}}
	cfg.Pools = []tenants.Pool{pool}
	tenant := tenants.Tenant{
		Name: "acme", Weight: 0.001, Keys: []tenants.Key{{Hash: tenants.HashKey("key")}},
		Models: []string{granted}, DefaultPool: "main", MaxOutputTokens: most, Routes: tenants.RouteInference | tenants.RouteFiles,
	}
	f.gateway = testkit.Must(gateway.New(gateway.Options{
		Admission: admissiontest.Build(t, cfg, tenant), Log: slog.New(slog.DiscardHandler), Transport: f, Objects: owned,
	}))(t)
	return f
}

// RoundTrip is the upstream.
func (f *front) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.sent = &forwarded{r.Header.Get("Content-Type"), body}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"id":"file-1","object":"file","usage":{"input_tokens":1,"output_tokens":1,"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)),
	}, nil
}

// send sends a body through the gateway, and returns what is forwarded, or nil.
func (f *front) send(path, kind string, body []byte) *forwarded {
	f.sent = nil
	r := httptest.NewRequest(http.MethodPost, "/v1"+path, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	r.Header.Set("Content-Type", kind)
	f.gateway.ServeHTTP(httptest.NewRecorder(), r)
	return f.sent
}
