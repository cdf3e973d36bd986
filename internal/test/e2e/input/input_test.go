package input

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// Bodies are refused as package head says, whose tests have all cases.
func TestInput_BadBodies(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	const msgs = `"messages":[{"role":"user","content":"x"}]`
	for _, tc := range []struct{ name, body, param, says string }{
		{"nothing", ``, "", "not valid JSON"},
		{"cut off", sockets.Chat(``)[:40], "", "not valid JSON"},
		{"invalid UTF-8", "{\"model\":\"gpt-4o\",\"x\":\"\xc3\x28\"}", "", "not valid UTF-8"},
		{"max_tokens in quotes", sockets.Chat(`,"max_tokens":"12"`), "max_tokens", `"12"`},
		{"model in another case", `{"MODEL":"gpt-4o",` + msgs + `}`, "model", "case"},
		{"model missing", `{` + msgs + `}`, "model", "must name a model"},
		{"include_usage twice", sockets.Chat(`,"stream":true,"stream_options":{"include_usage":true,"include_usage":false}`), "stream_options", "twice"},
		{"n huge", sockets.Chat(`,"n":100000`), "n", "100000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := s.Post("/v1/chat/completions", tc.body).WantProblem(t, http.StatusBadRequest, "invalid_request_error")
			param := ""
			if e.Error.Param != nil {
				param = *e.Error.Param
			}
			if param != tc.param || !strings.Contains(e.Error.Message, tc.says) {
				t.Errorf("param %q, message %q; want %q and a message with %q", param, e.Error.Message, tc.param, tc.says)
			}
		})
	}
	s.WantUnused("acme")
	if n := s.Seen.Count(); n != 0 {
		t.Errorf("the upstream saw %d of the bad bodies", n)
	}
}

func TestInput_Routes(t *testing.T) {
	s := sockets.New(t, sockets.World{
		Pool:    sockets.Pool(func(p *tenants.Pool) { p.Models = []string{"gpt-4o", "o4-mini"} }),
		Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} })},
	})
	for _, tc := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/v1/unknown", `{}`, 404, "not_found"},
		{"GET", "/v1/organization/admin_api_keys", ``, 404, "not_found"},
		{"POST", "/v1/organization/usage", ``, 404, "not_found"},
		{"GET", "/v1/chat/completions", ``, 404, "not_found"},
		{"DELETE", "/v1/models/gpt-4o", ``, 404, "not_found"},
		{"PUT", "/v1/embeddings", `{}`, 404, "not_found"},
		{"POST", "/v2/chat/completions", sockets.Chat(``), 404, "not_found"},
		{"GET", "/v1//files/", ``, 404, "not_found"},
		{"POST", "/v1/chat/../organization/x", sockets.Chat(``), 404, "not_found"},
		{"GET", "/", ``, 404, "not_found"},
		{"GET", "/v1/files", ``, 403, "route_not_allowed"},
		{"POST", "/v1/files", ``, 403, "route_not_allowed"},
		{"GET", "/v1/responses/resp_1", ``, 403, "route_not_allowed"},
		{"POST", "/v1/chat/completions", strings.Replace(sockets.Chat(``), "gpt-4o", "o4-mini", 1), 403, "model_not_allowed"},
		{"POST", "/v1/chat/completions", strings.Replace(sockets.Chat(``), "gpt-4o", "nobody's", 1), 404, "model_not_found"},
		{"GET", "/v1/models/o4-mini", ``, 404, "model_not_found"},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			s.Do(s.Request(tc.method, tc.path, tc.body)).WantProblem(t, tc.status, tc.code)
		})
	}
	s.WantUnused("acme")
	if n := s.Seen.Count(); n != 0 {
		t.Errorf("the upstream saw %d of the refused calls", n)
	}
}

// Without a key nothing is told of what there is, and of a body nothing is read.
func TestInput_Keys(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	for _, header := range [][]string{
		{"Authorization", ""},
		{"Authorization", "Bearer "},
		{"Authorization", "Bearer wrong"},
		{"Authorization", sockets.Key("acme")}, // no scheme
		{"Authorization", "Basic " + sockets.Key("acme")},
		{"Authorization", "", "X-Api-Key", "wrong"},
		{"Authorization", "", "Api-Key", "wrong"},
	} {
		s.Post("/v1/chat/completions", sockets.Chat(``), header...).WantProblem(t, http.StatusUnauthorized, "invalid_api_key")
	}
	s.Post("/v1/chat/completions", sockets.Chat(``), "Authorization", "bearer "+sockets.Key("acme")).WantOK(t, "a scheme in lower case")
}

// Bodies that agents send compressed are read as they were before, at the size that they were; others are refused.
func TestInput_Encoding(t *testing.T) {
	s := sockets.New(t, sockets.World{Config: func(c *tenants.Config) { c.MaxBody = 64 << 10 }})
	chat := sockets.Chat(``)
	for _, c := range []struct {
		encoding, body string
		status         int
		says           string
	}{
		{"gzip", testkit.Gzip(chat), 200, ""},
		{"x-gzip, identity", testkit.Gzip(chat), 200, ""},
		{"zstd", testkit.Zstd(chat), 200, ""},
		{"ZSTD", testkit.Zstd(chat), 200, ""},
		{"br", chat, 415, "gzip or zstd"},
		{"gzip, zstd", chat, 415, "gzip or zstd"},
		{"gzip", "\x1f\x8b\x08\x00", 400, "gzip"},
		{"zstd", testkit.Zstd(chat)[:20], 400, "zstd"},
		{"gzip", testkit.Gzip(chat + strings.Repeat(" ", 64<<10)), 413, "64 KiB"},
		{"zstd", testkit.Zstd(strings.Repeat("\x00", 1<<28)), 413, "64 KiB"},
		{"zstd", testkit.Zstd(`{"model":"gpt-4o","model":"o3"}`), 400, "twice"},
	} {
		reply := s.Post("/v1/chat/completions", c.body, "Content-Encoding", c.encoding)
		if reply.Status != c.status || !strings.Contains(reply.Body, c.says) {
			t.Errorf("%s of %d bytes: %d %s", c.encoding, len(c.body), reply.Status, reply.Body)
		}
		if up := s.Seen.Last(t); c.status == 200 && (string(up.Body) != chat || up.Header["Content-Encoding"] != nil) {
			t.Errorf("%s: the upstream gets %q %v", c.encoding, up.Body, up.Header)
		}
	}
	if n := s.Seen.Count(); n != 4 {
		t.Errorf("the upstream saw %d calls", n)
	}
	s.Post("/v1/chat/completions", chat, "Content-Encoding", "identity").WantOK(t, "Content-Encoding: identity")
}

func TestInput_Hints(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	s.Post("/v1/chat/completions", sockets.Chat(``), "X-Llmgov-Max-Wait", "soon").WantProblem(t, http.StatusBadRequest, "invalid_request_error")
	s.Post("/v1/chat/completions", sockets.Chat(``), "X-Llmgov-Max-Wait", "-1s").WantProblem(t, http.StatusBadRequest, "invalid_request_error")
	s.Post("/v1/chat/completions", sockets.Chat(``), "X-Llmgov-Priority", "highest").WantProblem(t, http.StatusBadRequest, "invalid_request_error")
}

// raw sends bytes as they are and reads one answer.
func raw(s *sockets.Stack, head, body string, closeWrite bool) sockets.Reply {
	s.T.Helper()
	conn := testkit.Must((&net.Dialer{}).DialContext(s.T.Context(), "tcp", s.Data.Listener.Addr().String()))(s.T)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(sockets.Patience))
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", sockets.Key("acme"), head, body)
	if closeWrite {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	resp := testkit.Must(http.ReadResponse(bufio.NewReader(conn), nil))(s.T)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return sockets.Reply{Status: resp.StatusCode, Header: resp.Header, Body: string(b), Err: err}
}

// A body that is announced as too large is refused before any of it came.
func TestInput_TooLargeAnnounced(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	e := raw(s, "Content-Length: 100000000", "", false).WantProblem(t, http.StatusRequestEntityTooLarge, "request_too_large")
	if !strings.Contains(e.Error.Message, "32 MiB") {
		t.Errorf("the message does not say what may be sent: %s", e.Error.Message)
	}
	s.WantUnused("acme")
}

// A body of unknown length is read no further than it may be.
func TestInput_TooLargeChunked(t *testing.T) {
	s := sockets.New(t, sockets.World{Config: func(c *tenants.Config) { c.MaxBody = 1 << 20 }})
	const most = 100 << 20
	sent := &inputCounter{r: io.LimitReader(inputEndless{}, most)}
	r := s.Request(http.MethodPost, "/v1/chat/completions", "")
	r.Body = io.NopCloser(sent)
	r.ContentLength = -1
	r.GetBody = nil
	s.Do(r).WantProblem(t, http.StatusRequestEntityTooLarge, "request_too_large")
	if n := sent.n.Load(); n > most/2 {
		t.Errorf("%d bytes were taken of a body limited to 1 MiB", n)
	}
	s.WantUnused("acme")
}

// An upload that breaks off is the caller's error, and leaves nothing behind.
func TestInput_TruncatedUpload(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	raw(s, "Content-Length: 500", sockets.Chat(``), true).WantProblem(t, http.StatusBadRequest, "invalid_request_error")
	raw(s, "Transfer-Encoding: chunked", "5\r\n{\"mod\r\n", true).WantProblem(t, http.StatusBadRequest, "invalid_request_error")
	s.WantUnused("acme")
	if n := s.Seen.Count(); n != 0 {
		t.Errorf("the upstream saw %d half bodies", n)
	}
}

// Nesting that would take a JSON reader's whole stack is refused without one.
func TestInput_DeepNesting(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	deep := strings.Repeat("[", 4<<20)
	for name, body := range map[string]string{
		"in a member":    `{"model":"gpt-4o","messages":` + deep,
		"at the top":     deep,
		"objects":        strings.Repeat(`{"a":`, 1<<20),
		"closed, though": `{"model":"gpt-4o","messages":` + deep[:5000] + strings.Repeat("]", 5000) + `}`,
	} {
		e := s.Post("/v1/chat/completions", body).WantProblem(t, http.StatusBadRequest, "invalid_request_error")
		if !strings.Contains(e.Error.Message, "nests deeper") {
			t.Errorf("%s: %s", name, e.Error.Message)
		}
	}
	s.WantUnused("acme")
}

// A prompt that alone is more than the pool has in a minute can never go.
func TestInput_PromptBeyondThePool(t *testing.T) {
	s := sockets.New(t, sockets.World{Pool: sockets.Pool(func(p *tenants.Pool) { p.TPM = 100_000 })})
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", 10<<20/12) + `"}]}`
	e := s.Post("/v1/chat/completions", body).WantProblem(t, http.StatusRequestEntityTooLarge, "request_too_large")
	if !strings.Contains(e.Error.Message, "100000") || !strings.Contains(e.Error.Message, "main") {
		t.Errorf("the message does not say which limit: %s", e.Error.Message)
	}
	s.WantUnused("acme")
	if n := s.Seen.Count(); n != 0 {
		t.Error("the upstream saw it")
	}
}

// inputFlood is an upstream whose first event never ends: after size bytes it falls
// silent.
func inputFlood(size int, silent chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: ")
		piece := []byte(strings.Repeat("x", 64<<10))
		for range size / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
		_ = http.NewResponseController(w).Flush()
		close(silent)
		<-r.Context().Done()
	})
}

// An event without end is passed on in pieces: it fills no memory, and the
// silence after it ends it with an error.
func TestInput_EndlessEvent(t *testing.T) {
	const size = 64 << 20
	silent := make(chan struct{})
	s := sockets.New(t, sockets.World{
		Upstream: inputFlood(size, silent),
		Config:   func(c *tenants.Config) { c.Timeouts.StreamIdle = 500 * time.Millisecond },
	})
	before := inputLiveHeap()
	resp := testkit.Must(s.Client.Do(s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(`,"stream":true`))))(t)
	defer resp.Body.Close()
	testkit.Must(io.CopyN(io.Discard, resp.Body, size))(t)
	if grown := inputLiveHeap() - before; grown > size/4 {
		t.Errorf("%d MiB are held of an event of %d MiB", grown>>20, size>>20)
	}
	<-silent
	rest := testkit.Must(io.ReadAll(resp.Body))(t)
	if tail := string(rest); !strings.Contains(tail, "\n\ndata: {\"error\":") || !strings.Contains(tail, "upstream_timeout") || strings.Contains(tail, "[DONE]") {
		t.Errorf("the stream ends with %.300q", tail)
	}
}

func TestInput_StreamFallsSilent(t *testing.T) {
	s := sockets.New(t, sockets.World{Config: func(c *tenants.Config) { c.Timeouts.StreamIdle = 200 * time.Millisecond }})
	reply := s.Post("/v1/chat/completions", sockets.Chat(`,"stream":true,"mock":{"stall_after":3}`))
	if !strings.HasSuffix(reply.Body, "}}\n\n") || !strings.Contains(reply.Body, "upstream_timeout") || strings.Contains(reply.Body, "[DONE]") {
		t.Errorf("the stream is %q", reply.Body)
	}
}

// A plain answer that breaks off must not look whole.
func TestInput_PlainAnswerCutOff(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	resp, err := s.Client.Do(s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(`,"mock":{"hangup_after":3}`)))
	if err != nil {
		return // cut off before the headers were flushed
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); resp.StatusCode == 200 && err == nil {
		t.Errorf("half an answer came as a whole one: %s", body)
	}
}

func TestInput_MessagesDialect(t *testing.T) {
	const body = `{"model":"claude","max_tokens":10,"messages":[{"role":"user","content":"x"}]}`
	s := sockets.New(t, sockets.World{
		BaseURL: fmt.Sprintf("http://127.0.0.1:%d", testkit.Port(t)), // where nobody listens
		Pool: sockets.Pool(func(p *tenants.Pool) {
			p.Models = []string{"claude", "opus"}
			p.TPM = 100_000
		}),
		Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"claude"} })},
		Config:  func(c *tenants.Config) { c.MaxBody = 1 << 20 },
	})
	for _, tc := range []struct {
		name, body string
		header     []string
		status     int
		kind, code string
	}{
		{"no key", body, []string{"Authorization", ""}, 401, "authentication_error", "invalid_api_key"},
		{"broken", `{`, nil, 400, "invalid_request_error", "invalid_request_error"},
		{"model twice", `{"model":"a","model":"b"}`, nil, 400, "invalid_request_error", "invalid_request_error"},
		{"model not granted", strings.Replace(body, "claude", "opus", 1), nil, 403, "permission_error", "model_not_allowed"},
		{"model of no pool", strings.Replace(body, "claude", "gpt", 1), nil, 404, "not_found_error", "model_not_found"},
		{"too large", strings.Repeat(" ", 2<<20), nil, 413, "request_too_large", "request_too_large"},
		{"upstream unreachable", body, nil, 502, "api_error", "upstream_error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, path := range []string{"/v1/messages", "/messages", "/v1/messages/count_tokens"} {
				reply := s.Post(path, tc.body, append([]string{"Authorization", "", "X-Api-Key", sockets.Key("acme")}, anthropicHeader(tc.header)...)...)
				e := reply.Problem(t)
				if reply.Status != tc.status || e.Type != "error" || e.Error.Type != tc.kind || e.Error.Code != tc.code {
					t.Errorf("%s: got %d %s, want %d, type %s and code %s", path, reply.Status, reply.Body, tc.status, tc.kind, tc.code)
				}
			}
		})
	}
	s.WantUnused("acme")
}

// anthropicHeader takes the key out where a case says there is none.
func anthropicHeader(header []string) []string {
	if len(header) > 0 && header[0] == "Authorization" {
		return []string{"X-Api-Key", ""}
	}
	return header
}

// inputLiveHeap is what the heap holds after a collection.
func inputLiveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// inputEndless reads as spaces.
type inputEndless struct{}

func (inputEndless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// inputCounter counts what is read of r.
type inputCounter struct {
	r io.Reader
	n atomic.Int64
}

func (c *inputCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
