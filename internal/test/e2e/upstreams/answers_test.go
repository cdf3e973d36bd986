package upstreams

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
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
		s := sockets.New(t, sockets.World{Upstream: evil(status, "", "Location", "http://elsewhere.example/v1"), Tenants: sockets.TenantsWithTeams()})
		for path, body := range map[string]string{
			"/v1/chat/completions": sockets.Chat(``),
			"/v1/messages":         `{"model":"gpt-4o","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
			"/v1/responses":        `{"model":"gpt-4o","input":"x"}`,
			"/v1/vector_stores":    `{"name":"x"}`,
		} {
			reply := s.Post(path, body)
			if reply.Status != http.StatusBadGateway || reply.Header.Get("Location") != "" || !strings.Contains(reply.Body, "redirects") {
				t.Errorf("%d from %s is answered with %d %v %s", status, path, reply.Status, reply.Header, reply.Body)
			}
		}
		_, resp, err := s.Dial("/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + sockets.Key("acme")}})
		if err == nil || resp == nil || resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Location") != "" {
			t.Errorf("%d from a session is answered with %v", status, resp)
		}
		if n := harness.Counted(t, s.Metrics, "llmgov_upstream_errors_total", map[string]string{"class": fmt.Sprint(status)}); n == 0 {
			t.Errorf("no error of class %d is counted", status)
		}
	}
}

// Statuses that HTTP does not have are no answers, and no reason to panic.
func TestAudit_L1_OddStatuses(t *testing.T) {
	for _, status := range []string{"000", "001", "099", "600", "999"} {
		s := sockets.New(t, sockets.World{Upstream: statusLine(status), Tenants: sockets.TenantsWithTeams()})
		for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
			reply := s.Post(path, `{"model":"gpt-4o","input":"x","messages":[{"role":"user","content":"x"}]}`)
			if reply.Status != http.StatusBadGateway || !strings.Contains(reply.Body, "upstream_error") {
				t.Errorf("%s from %s is answered with %d %s", status, path, reply.Status, reply.Body)
			}
		}
		if n := harness.Counted(t, s.Metrics, "llmgov_upstream_errors_total", map[string]string{"class": "unreadable"}); n != 2 {
			t.Errorf("%d errors are counted as unreadable, want 2", n)
		}
	}
}

// Whatever an upstream says, its key does not come through: in errors, answers, streams, across the
// borders of chunks, and in headers.
func TestAudit_M7_TheUpstreamsKeyStaysHere(t *testing.T) {
	half := len(sockets.UpstreamKey) / 2
	inPieces := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{`data: {"choices":[{"delta":{"content":"`, sockets.UpstreamKey[:half], sockets.UpstreamKey[half:], "\"}}]}\n\ndata: [DONE]\n\n"} {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	}
	said := `{"id":"resp_1","error":{"message":"your key ` + sockets.UpstreamKey + ` is bad"}}`
	for name, upstream := range map[string]http.HandlerFunc{
		"200": evil(200, said, "Content-Type", "application/json", "Openai-Model", sockets.UpstreamKey, "Authorization", "Bearer "+sockets.UpstreamKey),
		"400": evil(400, said), "404": evil(404, said), "418": evil(418, said), "429": evil(429, said), "500": evil(500, said), "503": evil(503, said),
		"a stream": evil(200, "data: "+said+"\n\ndata: [DONE]\n\n", "Content-Type", "text/event-stream"),
		"pieces":   inPieces,
	} {
		s := sockets.New(t, sockets.World{Upstream: upstream, Tenants: sockets.TenantsWithTeams()})
		for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/vector_stores"} {
			reply := s.Post(path, `{"model":"gpt-4o","max_tokens":9,"input":"x","messages":[{"role":"user","content":"x"}]}`)
			if all := fmt.Sprint(reply.Header, reply.Body); strings.Contains(all, sockets.UpstreamKey) || reply.Header.Get("Authorization") != "" {
				t.Errorf("%s from %s: %d %s", name, path, reply.Status, all)
			}
			if name == "400" && !strings.Contains(reply.Body, "your key "+strings.Repeat("*", len(sockets.UpstreamKey))+" is bad") {
				t.Errorf("the rest of the error is lost: %s", reply.Body)
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
		s := sockets.New(t, sockets.World{Upstream: tt.upstream, Tenants: sockets.TenantsWithTeams()})
		for _, path := range []string{"/v1/chat/completions", "/v1/vector_stores"} {
			if reply := s.Post(path, sockets.Chat(``)); reply.Status != tt.want {
				t.Errorf("%s from %s is answered with %d %s, want %d", name, path, reply.Status, reply.Body, tt.want)
			}
		}
	}
}

// An answer that is encoded although identity was asked for passes as it was before, if that can be read. No other does: nobody could
// read its usage, nor how large it becomes. It is charged by estimate, and the error is counted.
func TestAudit_A9_EncodedAnswers(t *testing.T) {
	const answer = `{"choices":[{"text":"a"}],"output":[{"type":"message"}],"usage":{"prompt_tokens":1000,"completion_tokens":1}}`
	for _, c := range []struct {
		encoding, body string
		status         int
		input          int64 // that is charged, if it was told
	}{
		{"Identity", answer, 200, 1000},
		{"gzip", testkit.Gzip(answer), 200, 1000},
		{"identity, X-GZIP", testkit.Gzip(answer), 200, 1000},
		{"zstd", testkit.Zstd(answer), 200, 1000},
		{"gzip", testkit.Gzip(`{"error":{"type":"invalid_request_error","message":"no"}}`), 400, 0},
		{"gzip", answer, 502, 0},
		{"br", answer, 502, 0},
		{"gzip, gzip", answer, 502, 0},
	} {
		s := sockets.New(t, sockets.World{
			Upstream: evil(http.StatusOK, c.body, "Content-Encoding", c.encoding, "Content-Type", "application/json"),
			Tenants:  sockets.TenantsWithTeams(),
		})
		for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
			before := s.Charged("input")
			reply := s.Post(path, `{"model":"gpt-4o","input":"x","messages":[{"role":"user","content":"x"}]}`)
			encoding := reply.Header.Get("Content-Encoding")
			if reply.Status != c.status || encoding != "" && encoding != "Identity" || c.status == 502 && !strings.Contains(reply.Body, "upstream_error") {
				t.Errorf("%s from %s is answered with %d %v %q", c.encoding, path, reply.Status, reply.Header, reply.Body)
			}
			if took := s.Charged("input") - before; took != c.input && c.status != 502 {
				t.Errorf("%s from %s: %d tokens of input are charged, %d are right", c.encoding, path, took, c.input)
			}
		}
		class := "unreadable"
		if c.encoding == "gzip" { // the answer breaks off
			class = "broken"
		}
		want := map[bool]int64{true: 2}[c.status == 502]
		if n := harness.Counted(t, s.Metrics, "llmgov_upstream_errors_total", map[string]string{"class": class}); n != want {
			t.Errorf("%s: %d errors are counted as %s, want %d", c.encoding, n, class, want)
		}
	}
}
