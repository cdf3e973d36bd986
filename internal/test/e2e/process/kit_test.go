package process

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { processtest.Main(m) }

const (
	// config is the name of a gateway's config in its folder.
	config   = "llmgov.yaml"
	anywhere = "listen: \"127.0.0.1:0\"\nadmin: {listen: \"127.0.0.1:0\"}\n"
	// kept lets a gateway remember what it did before it was killed.
	kept = "state_dir: state\n"
)

// newFolder has the files of a gateway before an upstream, with a pool of such limits, to the last call, and two tenants,
// whose keys are key-of-a and key-of-b: in a pool of one tenant the burst would be a whole minute.
func newFolder(t *testing.T, upstream, limits, settings string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	policy := "tenants:\n"
	for _, name := range []string{"a", "b"} {
		policy += fmt.Sprintf("  %s: {keys: [%q], max_wait: 50ms}\n", name, tenants.HashKey("key-of-"+name).String())
	}
	processtest.Write(t, dir, map[string]string{
		config: anywhere + settings + "upstreams: {mock: {base_url: " + upstream + "}}\n" +
			"pools:\n  p: {models: [\"*\"], headroom: 0, burst: 0s, max_queue: 100, " + limits + "}\n",
		"tenants/all.yaml": policy,
	})
	return dir
}

// upstream is the address of a simulated model server without limits.
func upstream(t *testing.T) string {
	t.Helper()
	return processtest.NewProvider(t, mock.Config{}).URL
}

// The data side answers /healthz if it is asked to.
func TestHealthz(t *testing.T) {
	for env, want := range map[string]int{"LLMGOV_HEALTHZ=true": http.StatusOK, "LLMGOV_HEALTHZ=false": http.StatusNotFound} {
		p := processtest.Quickstart(t, env)
		if got := processtest.Ask(t, http.MethodGet, p.Data+"/healthz", "", "").Status; got != want {
			t.Errorf("%s: %d, want %d", env, got, want)
		}
	}
}

// Headers beyond the limit are refused before anything else is looked at, in the caller's
// dialect, over HTTP/1 and 2.
func TestServe_LargeHeaders(t *testing.T) {
	p := processtest.Quickstart(t, "LLMGOV_H2C=true")
	key := p.Key(t, "pro")
	const (
		openAI    = `"type":"request_too_large","param":null,"code":"request_too_large"}}`
		anthropic = `{"type":"error","error":{"type":"request_too_large","message":"The headers have `
	)
	for _, c := range []struct {
		path   string
		size   int
		status int
		want   string
	}{
		{"/v1/models", 32 << 10, http.StatusOK, `"object":"list"`},
		{"/v1/models", 65 << 10, http.StatusRequestHeaderFieldsTooLarge, openAI},
		{"/v1/models", 250 << 10, http.StatusRequestHeaderFieldsTooLarge, openAI},
		{"/v1/models?padding=" + strings.Repeat("x", 40<<10), 30 << 10, http.StatusRequestHeaderFieldsTooLarge, openAI},
		{"/v1/messages", 65 << 10, http.StatusRequestHeaderFieldsTooLarge, anthropic},
	} {
		for _, version := range []int{1, 2} {
			status, body := padded(t, p, version, c.path, key, c.size)
			if status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("HTTP/%d %.20s with %d bytes gets %d %.200q, want %d %s", version, c.path, c.size, status, body, c.status, c.want)
			}
		}
	}
	// What the server itself refuses.
	if status, _ := padded(t, p, 1, "/v1/models", key, 512<<10); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("512 KiB get %d", status)
	}
}

// padded sends a request with so many bytes of headers.
func padded(t *testing.T, p *processtest.Process, version int, path, key string, size int) (status int, body string) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.Data+path, nil))(t)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("X-Padding", strings.Repeat("x", size))
	resp := testkit.Must(transport.RoundTrip(req))(t)
	defer resp.Body.Close()
	b := testkit.Must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(b)
}
