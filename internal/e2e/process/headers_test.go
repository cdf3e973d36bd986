package process

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

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
