package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// evil is an upstream that answers every call alike.
func evil(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// statusLine is an upstream that answers with a status that net/http would not write.
func statusLine(status string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s Odd\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", status)
	}
}

// A client that followed a redirect would hand its key to another host.
func TestAudit_M4_RedirectsStayHere(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		s := newSDKStack(t, sdkWorld{upstream: evil(status, "", "Location", "http://elsewhere.example/v1"), tenants: objectTenants()})
		for path, body := range map[string]string{
			"/v1/chat/completions": sdkChat(``),
			"/v1/messages":         `{"model":"gpt-4o","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
			"/v1/responses":        `{"model":"gpt-4o","input":"x"}`,
			"/v1/vector_stores":    `{"name":"x"}`,
		} {
			reply := s.post(path, body)
			if reply.status != http.StatusBadGateway || reply.header.Get("Location") != "" || !strings.Contains(reply.body, "redirects") {
				t.Errorf("%d from %s is answered with %d %v %s", status, path, reply.status, reply.header, reply.body)
			}
		}
		_, resp, err := s.dial("/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + sdkKey("acme")}})
		if err == nil || resp == nil || resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Location") != "" {
			t.Errorf("%d from a session is answered with %v", status, resp)
		}
		if n := counted(t, s.metrics, "llmgov_upstream_errors_total", map[string]string{"class": fmt.Sprint(status)}); n == 0 {
			t.Errorf("no error of class %d is counted", status)
		}
	}
}

// Statuses that HTTP does not have are no answers, and no reason to panic.
func TestAudit_L1_OddStatuses(t *testing.T) {
	for _, status := range []string{"000", "001", "099", "600", "999"} {
		s := newSDKStack(t, sdkWorld{upstream: statusLine(status), tenants: objectTenants()})
		for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
			reply := s.post(path, `{"model":"gpt-4o","input":"x","messages":[{"role":"user","content":"x"}]}`)
			if reply.status != http.StatusBadGateway || !strings.Contains(reply.body, "upstream_error") {
				t.Errorf("%s from %s is answered with %d %s", status, path, reply.status, reply.body)
			}
		}
		if n := counted(t, s.metrics, "llmgov_upstream_errors_total", map[string]string{"class": "unreadable"}); n != 2 {
			t.Errorf("%d errors are counted as unreadable, want 2", n)
		}
	}
}

// Whatever an upstream says, its key does not come through: in errors, answers, streams, across the
// borders of chunks, and in headers.
func TestAudit_M7_TheUpstreamsKeyStaysHere(t *testing.T) {
	half := len(sdkUpstreamKey) / 2
	inPieces := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{`data: {"choices":[{"delta":{"content":"`, sdkUpstreamKey[:half], sdkUpstreamKey[half:], "\"}}]}\n\ndata: [DONE]\n\n"} {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	}
	said := `{"id":"resp_1","error":{"message":"your key ` + sdkUpstreamKey + ` is bad"}}`
	for name, upstream := range map[string]http.HandlerFunc{
		"200": evil(200, said, "Content-Type", "application/json", "Openai-Model", sdkUpstreamKey, "Authorization", "Bearer "+sdkUpstreamKey),
		"400": evil(400, said), "404": evil(404, said), "418": evil(418, said), "429": evil(429, said), "500": evil(500, said), "503": evil(503, said),
		"a stream": evil(200, "data: "+said+"\n\ndata: [DONE]\n\n", "Content-Type", "text/event-stream"),
		"pieces":   inPieces,
	} {
		s := newSDKStack(t, sdkWorld{upstream: upstream, tenants: objectTenants()})
		for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/vector_stores"} {
			reply := s.post(path, `{"model":"gpt-4o","max_tokens":9,"input":"x","messages":[{"role":"user","content":"x"}]}`)
			if all := fmt.Sprint(reply.header, reply.body); strings.Contains(all, sdkUpstreamKey) || reply.header.Get("Authorization") != "" {
				t.Errorf("%s from %s: %d %s", name, path, reply.status, all)
			}
			if name == "400" && !strings.Contains(reply.body, "your key "+strings.Repeat("*", len(sdkUpstreamKey))+" is bad") {
				t.Errorf("the rest of the error is lost: %s", reply.body)
			}
		}
	}
}

// An error that repeats the key is about the key, which is no business of the tenant.
func TestAudit_M7_ErrorsAboutTheKey(t *testing.T) {
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			evil(status, "headers: "+r.Header.Get("Authorization"))(w, r)
		}
	}
	for name, tt := range map[string]struct {
		upstream http.HandlerFunc
		want     int
	}{
		"401": {evil(401, "who?"), 502}, "407": {evil(407, "who?"), 502}, "403 with the key": {echo(403), 502}, "403": {evil(403, "no"), 403},
	} {
		s := newSDKStack(t, sdkWorld{upstream: tt.upstream, tenants: objectTenants()})
		for _, path := range []string{"/v1/chat/completions", "/v1/vector_stores"} {
			if reply := s.post(path, sdkChat(``)); reply.status != tt.want {
				t.Errorf("%s from %s is answered with %d %s, want %d", name, path, reply.status, reply.body, tt.want)
			}
		}
	}
}
