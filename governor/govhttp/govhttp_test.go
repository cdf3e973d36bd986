package govhttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/governor/govhttp"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// stack is a governor with one tenant, and a model server.
type stack struct {
	t      *testing.T
	client *client.Client
	gov    *governor.Governor
	model  *mock.Server
	server *httptest.Server
}

func newStack(t *testing.T, change func(*tenants.Tenant)) *stack {
	t.Helper()
	s := &stack{t: t}
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://u/v1"}}
	pool := tenants.DefaultPool("p", "*")
	pool.TPM = 100_000_000
	cfg.Pools = []tenants.Pool{pool}
	acme := tenants.Tenant{Name: "acme", Keys: []tenants.Key{{Hash: tenants.HashKey("sk-acme")}}, Models: []string{"*"}, Routes: tenants.RouteInference}
	if change != nil {
		change(&acme)
	}
	ctl := admissiontest.Build(t, cfg, acme)
	s.gov = ctl.Governor()
	s.client = doors.Open(inprocess.New(ctl), doors.Options{})
	var err error
	s.model, err = mock.New(mock.Config{})
	s.must(err)
	s.server = httptest.NewServer(s.model)
	t.Cleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
		s.noLeases()
	})
	return s
}

func (s *stack) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stack) noLeases() {
	s.t.Helper()
	if running, waiting := s.gov.Leases(); running+waiting > 0 {
		s.t.Errorf("%d calls hold leases and %d wait", running, waiting)
	}
}

// charged are tokens of the last minute.
func (s *stack) charged() int64 {
	q := s.gov.Standing("acme", "p").Tokens
	return q.Limit - q.Remaining
}

// http is an HTTP client of acme's.
func (s *stack) http(opt govhttp.Options) *http.Client {
	if opt.Caller == nil {
		opt.Caller = govhttp.Tenant("acme")
	}
	return &http.Client{Transport: govhttp.Transport(s.client, s.server.Client().Transport, opt)}
}

func (s *stack) post(ctx context.Context, c *http.Client, path, body string) (*http.Response, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL+path, strings.NewReader(body))
	s.must(err)
	req.Header.Set("Content-Type", "application/json")
	return c.Do(req)
}

// read posts a call and reads its answer.
func (s *stack) read(c *http.Client, path, body string) (status int, text string, err error) {
	s.t.Helper()
	resp, err := s.post(s.t.Context(), c, path, body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func refused(err error) *client.Refusal {
	r, _ := errors.AsType[*client.Refusal](err)
	return r
}

// Calls of every dialect, plain or streamed, are charged what the model server produced, below whatever base URL.
func TestTransport_Charges(t *testing.T) {
	const said = `"messages":[{"role":"user","content":"Hello, how are you?"}]`
	for name, c := range map[string]struct{ path, body string }{
		"chat":              {"/v1/chat/completions", `{"model":"m","max_tokens":7,` + said + `}`},
		"chat, streamed":    {"/v1/chat/completions", `{"model":"m","max_tokens":7,"stream":true,` + said + `}`},
		"completions":       {"/v1/completions", `{"model":"m","max_tokens":7,"prompt":"Hello"}`},
		"responses":         {"/v1/responses", `{"model":"m","max_output_tokens":17,"input":"Hello"}`},
		"responses, stream": {"/v1/responses", `{"model":"m","max_output_tokens":17,"stream":true,"input":"Hello"}`},
		"messages":          {"/v1/messages", `{"model":"m","max_tokens":7,` + said + `}`},
		"messages, stream":  {"/v1/messages", `{"model":"m","max_tokens":7,"stream":true,` + said + `}`},
		"embeddings":        {"/v1/embeddings", `{"model":"m","input":"Hello"}`},
		"answered error":    {"/v1/chat/completions", `{"model":"m","max_tokens":7,` + said + `,"mock":{"error_status":503}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, nil)
			_, text, err := s.read(s.http(govhttp.Options{}), c.path, c.body)
			s.must(err)
			if produced := s.model.Stats().TokensProduced; s.charged() != produced {
				t.Errorf("charged %d tokens, produced %d: %s", s.charged(), produced, text)
			}
			if strings.Contains(text, `"choices":[]`) {
				t.Errorf("the chunk with the usage, for which the caller did not ask, is in %s", text)
			}
			s.noLeases()
		})
	}
}

// Calls are found below every base URL that providers have, and nothing else is taken for one.
func TestTransport_FindsCalls(t *testing.T) {
	s := newStack(t, func(acme *tenants.Tenant) { acme.RPM = 1000 })
	var sent *http.Request
	c := &http.Client{Transport: govhttp.Transport(s.client, roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
	}), govhttp.Options{Caller: govhttp.Tenant("acme")})}
	for path, governed := range map[string]bool{
		"/v1/chat/completions":                                          true,
		"/openai/v1/chat/completions":                                   true,
		"/v1beta/openai/chat/completions":                               true,
		"/openai/deployments/gpt/chat/completions?api-version=1":        true,
		"/api/v1/completions":                                           true,
		"/v1/messages":                                                  true,
		"/v1/acc/gw/openai/chat/completions":                            true,
		"/v1/acc/gw/openai/responses":                                   true,
		"/v1/acc/gw/anthropic/v1/messages":                              true,
		"/v1/projects/p/locations/l/endpoints/openapi/chat/completions": true,
		"/openai/deployments/gpt/v1/../chat/completions/?api-version=1": true,
		"/v1/chat/completions/":                                         true,
		"//v1//embeddings//":                                            true,
		"/v1/x/../responses":                                            true,
		"/v1/./messages":                                                true,
		"/v1/x/%2e%2e/completions":                                      true,
		"/v1/threads/thread_1/messages":                                 false,
		"/v1/threads/thread_1/messages/":                                false,
		"/openai/threads/thread_1/messages?api-version=1":               false,
		"/v1/messages/batches":                                          false,
		"/v1/files":                                                     false,
		"/chat/completions/other":                                       false,
		"/v1/chat/completions/../files":                                 false,
	} {
		before := s.gov.Standing("acme", "p").Requests.Remaining
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider"+path, strings.NewReader(`{"model":"gpt","messages":[]}`))
		s.must(err)
		req.Header.Set("Accept-Encoding", "gzip")
		req.Header.Set("X-Llmgov-Priority", "background")
		resp, err := c.Do(req)
		s.must(err)
		_ = resp.Body.Close()
		if counted := before - s.gov.Standing("acme", "p").Requests.Remaining; (counted == 1) != governed {
			t.Errorf("%s: %d calls were counted", path, counted)
		}
		if governed && (sent.Header.Get("Accept-Encoding") != "identity" || sent.Header.Get("X-Llmgov-Priority") != "") {
			t.Errorf("%s is sent with %v", path, sent.Header)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A call that breaks off is an error to its reader, and holds nothing.
func TestTransport_BreaksOff(t *testing.T) {
	const long = `{"model":"m","max_tokens":4000,"stream":true,"messages":[{"role":"user","content":"Hi"}],"mock":{"token_ms":1`
	s := newStack(t, nil)
	c := s.http(govhttp.Options{})
	if _, _, err := s.read(c, "/v1/chat/completions", long+`,"hangup_after":20}}`); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream that the model server cut off: %v", err)
	}
	s.noLeases()

	ctx, leave := context.WithCancel(t.Context())
	resp, err := s.post(ctx, c, "/v1/chat/completions", long+`}}`)
	s.must(err)
	leave() // and neither read nor close
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if running, _ := s.gov.Leases(); running == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("a caller that left holds a lease")
		}
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("after it left, its caller reads %v", err)
	}

	resp, err = s.post(t.Context(), c, "/v1/chat/completions", long+`}}`)
	s.must(err)
	s.gov.Interrupt("p", errors.New("a slot was lost"))
	if _, err := io.ReadAll(resp.Body); refused(err) == nil {
		t.Errorf("a stream that the governor ended: %v", err)
	}
}

// TestTransport_NotSent: a call of which nothing has left is charged nothing, whether its connection cannot be made or its caller leaves while it
// is made. One of which something has left is, also if its connection is lost then and there is no other.
func TestTransport_NotSent(t *testing.T) {
	const body = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`
	var kept net.Conn
	for name, c := range map[string]struct {
		scheme  string
		dial    func(ctx context.Context, leave func()) (net.Conn, error)
		charged bool
		again   bool // after a call that was served
	}{
		"nobody listens": {"http", func(context.Context, func()) (net.Conn, error) { return nil, errors.New("connection refused") }, false, false},
		"who leaves meanwhile": {"http", func(ctx context.Context, leave func()) (net.Conn, error) {
			leave()
			<-ctx.Done()
			return nil, ctx.Err()
		}, false, false},
		"no TLS there": {"https", func(context.Context, func()) (net.Conn, error) {
			here, there := net.Pipe()
			return here, there.Close()
		}, false, false},
		"no answer": {"http", func(_ context.Context, leave func()) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				_, _ = there.Read(make([]byte, 1<<10))
				leave()
			}()
			return here, nil
		}, true, false},
		"no answer on a connection that was kept": {"http", func(context.Context, func()) (net.Conn, error) {
			if kept != nil {
				return nil, errors.New("connection refused")
			}
			here, there := net.Pipe()
			kept = here
			go func() {
				defer there.Close()
				for r := bufio.NewReader(there); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if req.Header.Get("Idempotency-Key") == "lost" {
						return
					}
					_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n{\"usage\":{\"prompt_tokens\":1}}")
				}
			}()
			return here, nil
		}, true, true},
	} {
		s := newStack(t, nil)
		ctx, leave := context.WithCancel(t.Context())
		way := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, leave) }}
		governed := govhttp.Transport(s.client, way, govhttp.Options{Caller: govhttp.Tenant("acme")})
		send := func(key string) error {
			req := testkit.Must(http.NewRequestWithContext(ctx, http.MethodPost, c.scheme+"://model/v1/chat/completions", strings.NewReader(body)))(t)
			req.Header.Set("Idempotency-Key", key) // so that it is repeated
			resp, err := governed.RoundTrip(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			return err
		}
		if c.again {
			s.must(send("served"))
		}
		before := s.charged()
		if err := send("lost"); err == nil || refused(err) != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := s.charged() - before; (n > 0) != c.charged {
			t.Errorf("%s: %d tokens are charged", name, n)
		}
		leave()
	}
}

// What is wrong with a call is refused before it is sent; what is no call of a model passes.
func TestTransport_BadInput(t *testing.T) {
	s := newStack(t, nil)
	c := s.http(govhttp.Options{MaxBody: 1000})
	for name, want := range map[string]struct {
		body   string
		status int
	}{
		"no JSON":     {`{"model":`, http.StatusBadRequest},
		"model twice": {`{"model":"a","model":"b","messages":[]}`, http.StatusBadRequest},
		"no model":    {`{"messages":[]}`, http.StatusBadRequest},
		"odd bound":   {`{"model":"m","max_tokens":9.5,"messages":[]}`, http.StatusBadRequest},
		"negative":    {`{"model":"m","max_tokens":-5,"messages":[]}`, http.StatusBadRequest},
		"too large":   {`{"model":"m","messages":["` + strings.Repeat("x", 1000) + `"]}`, http.StatusRequestEntityTooLarge},
		"empty":       {``, http.StatusBadRequest},
	} {
		_, _, err := s.read(c, "/v1/chat/completions", want.body)
		if r := refused(err); r == nil || r.Status != want.status || r.Message == "" || !r.Final {
			t.Errorf("%s: %+v", name, r)
		}
	}
	nobody := s.http(govhttp.Options{Caller: govhttp.FromContext})
	if _, _, err := s.read(nobody, "/v1/chat/completions", `{"model":"m","messages":[]}`); refused(err) == nil || refused(err).Status != http.StatusUnauthorized {
		t.Errorf("without a tenant: %v", err)
	}
	if n := s.model.Stats().Requests; n > 0 {
		t.Errorf("%d wrong calls were sent", n)
	}
	if status, _, err := s.read(nobody, "/v1/vector_stores", `{"name":"v"}`); status != http.StatusOK {
		t.Errorf("a request that is no call of a model: %d, %v", status, err)
	}
}

// TestTransport_Fallbacks: a body names no model in place of its own that the tenant is not granted.
func TestTransport_Fallbacks(t *testing.T) {
	s := newStack(t, func(acme *tenants.Tenant) { acme.Models = []string{"m", "n"} })
	for body, status := range map[string]int{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"models":["n"]}`:              http.StatusOK,
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"models":["n","x"]}`:          http.StatusForbidden,
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"fallbacks":["x"]}`:           http.StatusForbidden,
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"fallbacks":[{"model":"x"}]}`: http.StatusForbidden,
	} {
		got, text, err := s.read(s.http(govhttp.Options{}), "/v1/chat/completions", body)
		if err != nil {
			got = refused(err).Status
		}
		if got != status {
			t.Errorf("%s: %d %s %v", body, got, text, err)
		}
	}
}

// Refusals as answers are worded as their dialect has it.
func TestTransport_Answers(t *testing.T) {
	s := newStack(t, func(acme *tenants.Tenant) { acme.RPM = 1 })
	c := s.http(govhttp.Options{Answer: true})
	const hello = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`
	if status, text, err := s.read(c, "/v1/messages", hello); status != http.StatusOK {
		t.Fatalf("%d %s %v", status, text, err)
	}
	resp, err := s.post(t.Context(), c, "/v1/messages", hello)
	s.must(err)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(text), `"type":"rate_limit_error"`) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	for _, name := range []string{"Retry-After", "X-Request-Id", "Request-Id", "X-Ratelimit-Limit-Requests"} {
		if resp.Header.Get(name) == "" {
			t.Errorf("no %s", name)
		}
	}
}

// The model server is asked for no more than the policy lets the tenant have.
func TestTransport_Clamps(t *testing.T) {
	s := newStack(t, func(acme *tenants.Tenant) { acme.MaxOutputTokens = 3 })
	_, text, err := s.read(s.http(govhttp.Options{}), "/v1/chat/completions", `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]}`)
	s.must(err)
	if n := s.model.Stats().OutputTokens; n != 3 {
		t.Errorf("an answer of %d tokens, 3 are allowed: %s", n, text)
	}
}

// A body that comes compressed, or with a byte order mark, is read as it was, and sent as that.
func TestTransport_EncodedBody(t *testing.T) {
	s := newStack(t, func(acme *tenants.Tenant) { acme.MaxOutputTokens = 3 })
	for _, c := range []struct {
		body     string
		encoding string
		status   int
	}{
		{testkit.Gzip(`{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]}`), "gzip", 200},
		{"\ufeff" + `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]}`, "", 200},
		{testkit.Gzip(strings.Repeat(" ", 2000)), "gzip", 413},
		{`{}`, "gzip", 400},
		{`{}`, "br", 415},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.server.URL+"/v1/chat/completions", strings.NewReader(c.body))
		s.must(err)
		req.Header.Set("Content-Encoding", c.encoding)
		resp, err := s.http(govhttp.Options{MaxBody: 1000}).Do(req)
		if r := refused(err); r != nil && r.Status != c.status || r == nil && (err != nil || resp.StatusCode != c.status) {
			t.Errorf("%s: %v, want %d", c.encoding, err, c.status)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
	if n := s.model.Stats().OutputTokens; n != 2*3 {
		t.Errorf("two answers of %d tokens, 3 are allowed each", n)
	}
}

// serve has a handler served under the middleware, and posts a chat to it with acme's key.
func (s *stack) serve(h http.HandlerFunc, body string) (*http.Response, error) {
	server := httptest.NewUnstartedServer(govhttp.Middleware(s.client, govhttp.Options{})(h))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	s.t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader(body))
	s.must(err)
	req.Header.Set("X-Api-Key", "sk-acme")
	return server.Client().Do(req)
}

const streamed = `{"model":"m","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`

// A body may name its model again, and have any characters; it may not name another model.
func TestMiddleware_OneModel(t *testing.T) {
	s := newStack(t, nil)
	ok := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}
	for body, want := range map[string]int{
		`{"model":"m","messages":[{"role":"user","content":"caf\u00e9"}]}`:                      http.StatusOK,
		`{"model":"m","input":"x","tools":[{"type":"image_generation","model":"m"}]}`:           http.StatusOK,
		`{"model":"m","input":"x","tools":[{"type":"image_generation","model":"dearer"}]}`:      http.StatusBadRequest,
		`{"model":"m","input":"x","tools":[{"type":"image_generation","\u006dodel":"dearer"}]}`: http.StatusBadRequest,
		`{"model":"m","models":["m","dearer"],"messages":[]}`:                                   http.StatusBadRequest,
	} {
		resp, err := s.serve(ok, body)
		s.must(err)
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d %s", body, resp.StatusCode, text)
		}
		if resp.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id", body)
		}
	}
}

// Nothing stays held when what sends a call panics, or answers without a body.
func TestTransport_Careless(t *testing.T) {
	s := newStack(t, nil)
	request := func() *http.Request {
		req, err := http.NewRequestWithContext(govhttp.WithTenant(t.Context(), "acme"), http.MethodPost, s.server.URL+"/v1/chat/completions", strings.NewReader(streamed))
		s.must(err)
		return req
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = govhttp.ClientMiddleware(s.client, govhttp.Options{})(request(), func(*http.Request) (*http.Response, error) { panic("no") })
	}()
	s.noLeases()
	resp, err := govhttp.ClientMiddleware(s.client, govhttp.Options{})(request(), func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK}, nil
	})
	s.must(err)
	_, _ = io.ReadAll(resp.Body)
	s.noLeases()
}

// An error under status 200 costs nothing, nor does nothing. Both reach the caller as they are.
func TestTransport_ErrorInPlaceOfAnAnswer(t *testing.T) {
	for text, label := range map[string]string{
		`{"error":{"message":"x"}}`: "application/json", "data: {\"error\":{\"message\":\"x\"}}\n\n": "text/event-stream",
		`{"choices":[]}`: "application/json", "": "application/json", "data: [DONE]\n\n": "text/event-stream",
	} {
		s := newStack(t, nil)
		req, err := http.NewRequestWithContext(govhttp.WithTenant(t.Context(), "acme"), http.MethodPost, s.server.URL+"/v1/chat/completions", strings.NewReader(streamed))
		s.must(err)
		resp, err := govhttp.ClientMiddleware(s.client, govhttp.Options{})(req, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {label}}, Body: io.NopCloser(strings.NewReader(text))}, nil
		})
		s.must(err)
		if got, err := io.ReadAll(resp.Body); string(got) != text || err != nil || s.charged() != 0 {
			t.Errorf("%s: %q %v, charged %d", label, got, err, s.charged())
		}
		s.noLeases()
	}
}

// A call that the governor ends before its answer began is answered with the reason.
func TestMiddleware_InterruptedEarly(t *testing.T) {
	s := newStack(t, nil)
	resp, err := s.serve(func(_ http.ResponseWriter, r *http.Request) {
		go s.gov.Interrupt("p", errors.New("a slot was lost"))
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}, streamed)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s", resp.Status)
		}
	}
}

// A handler's events reach their reader as they are written.
func TestMiddleware_Streams(t *testing.T) {
	s := newStack(t, nil)
	goOn := make(chan struct{})
	resp, err := s.serve(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), "include_usage") {
			t.Errorf("the handler is not asked for its usage: %s", body)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
		<-goOn
		_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n")
	}, streamed)
	s.must(err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"content":"a"`) {
		t.Errorf("first comes %q", lines.Text())
	}
	close(goOn)
	rest := ""
	for lines.Scan() {
		rest += lines.Text()
	}
	if rest != "data: [DONE]" {
		t.Errorf("then comes %q", rest)
	}
	if s.charged() != 42 {
		t.Errorf("charged %d tokens, 42 were reported", s.charged())
	}
}

// What a model server refuses of what was added to a call is left out, and of later calls from the beginning.
func TestRefusedAddition(t *testing.T) {
	for name, post := range map[string]func(*stack, http.HandlerFunc) func(body string) (*http.Response, error){
		"sent": func(s *stack, h http.HandlerFunc) func(string) (*http.Response, error) {
			s.server.Config.Handler = h
			c := s.http(govhttp.Options{})
			return func(body string) (*http.Response, error) {
				return s.post(s.t.Context(), c, "/v1/chat/completions", body)
			}
		},
		"served": func(s *stack, h http.HandlerFunc) func(string) (*http.Response, error) {
			middle := govhttp.Middleware(s.client, govhttp.Options{})(h)
			return func(body string) (*http.Response, error) {
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
				r.Header.Set("X-Api-Key", "sk-acme")
				w := httptest.NewRecorder()
				middle.ServeHTTP(w, r)
				return w.Result(), nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, nil)
			var calls atomic.Int64
			post := post(s, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), "stream_options") {
					w.WriteHeader(http.StatusInternalServerError)
					_, _ = io.WriteString(w, `{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
			})
			for _, want := range []struct {
				body          string
				status, calls int64
			}{
				{streamed, 200, 2},
				{streamed, 200, 3},
				{strings.Replace(streamed, "{", `{"stream_options":{"include_usage":true},`, 1), 500, 4},
			} {
				resp, err := post(want.body)
				s.must(err)
				_, err = io.ReadAll(resp.Body)
				s.must(err)
				s.must(resp.Body.Close())
				if int64(resp.StatusCode) != want.status || calls.Load() != want.calls {
					t.Errorf("%s: %d after %d calls, want %d and %d", want.body, resp.StatusCode, calls.Load(), want.status, want.calls)
				}
			}
		})
	}
}

// A handler that panics breaks off its answer and holds nothing.
func TestMiddleware_Panics(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"before its answer": func(http.ResponseWriter, *http.Request) { panic("no") },
		"in mid-stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, nil)
			resp, err := s.serve(h, streamed)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if err == nil {
				t.Error("the answer looks whole")
			}
		})
	}
}

// Callers that name models which nobody has checked are refused, in their own words.
func TestMiddleware_Refuses(t *testing.T) {
	s := newStack(t, nil)
	never := func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") }
	resp, err := s.serve(never, `{"model":"m","models":["m","dearer"],"messages":[]}`)
	s.must(err)
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "one model") {
		t.Errorf("several models: %d %s", resp.StatusCode, text)
	}
}

// A call without a key, or with a wrong one, is refused before its body is read, however its path is written: whoever sends it may have any number
// of large ones.
func TestMiddleware_StrangersUnread(t *testing.T) {
	s := newStack(t, func(acme *tenants.Tenant) {
		acme.Keys = append(acme.Keys, tenants.Key{Hash: tenants.HashKey("sk-old"), Expires: time.Now().Add(-time.Hour)})
	})
	never := func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") }
	const chat = "POST /v1/chat/completions"
	for _, c := range []struct{ call, key, says string }{
		{chat, "", "No API key"},
		{chat, "sk-wrong", "not known here"},
		{chat, "sk-old", "expired"},
		{"POST /v1/chat/completions/", "", "No API key"},
		{"POST /v1//embeddings", "", "No API key"},
		{"POST /v1/x/../messages", "", "No API key"},
		{"POST /v1/team/gateway/responses", "", "No API key"},
		{"PUT /v1/chat/completions", "", "No API key"},
	} {
		body := &untouched{Reader: strings.NewReader(streamed)}
		method, path, _ := strings.Cut(c.call, " ")
		r := httptest.NewRequest(method, path, body)
		r.Header.Set("Authorization", "Bearer "+c.key)
		w := httptest.NewRecorder()
		govhttp.Middleware(s.client, govhttp.Options{})(http.HandlerFunc(never)).ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "invalid_api_key") || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s, key %q: %d %s", c.call, c.key, w.Code, w.Body)
		}
		if body.reads > 0 {
			t.Errorf("%s, key %q: the body was read %d times", c.call, c.key, body.reads)
		}
	}
}

// untouched counts how often a body is read.
type untouched struct {
	io.Reader
	reads int
}

func (u *untouched) Read(p []byte) (int, error) {
	u.reads++
	return u.Reader.Read(p)
}

// The first chunk of a stream renews the lease once, because each renewal takes the lock of the governor.
func TestTransport_FirstChunkRenewsOnce(t *testing.T) {
	d := &renewals{}
	stream := func(*http.Request) (*http.Response, error) {
		const chunk = `data: {"choices":[{"index":0,"delta":{"content":"word"}}]}` + "\n\n"
		head := http.Header{"Content-Type": {"text/event-stream"}}
		return &http.Response{StatusCode: http.StatusOK, Header: head, Body: io.NopCloser(strings.NewReader(chunk + "data: [DONE]\n\n"))}, nil
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(streamed))
	resp := testkit.Must(govhttp.ClientMiddleware(doors.Open(d, doors.Options{}), govhttp.Options{})(req, stream))(t)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
	_ = resp.Body.Close()
	if d.n != 1 {
		t.Errorf("the lease was renewed %d times, want 1", d.n)
	}
}

// renewals is a Door that lets every call in, and counts how often its lease is renewed.
type renewals struct{ n int }

func (d *renewals) Reserve(context.Context, client.Request) (doors.Held, error) { return d, nil }

func (d *renewals) Shutdown(context.Context) error { return nil }
func (d *renewals) Grant() client.Grant            { return client.Grant{} }
func (d *renewals) Progress(client.Produced)       { d.n++ }
func (d *renewals) End(client.End)                 {}
func (d *renewals) EndBy(context.CancelCauseFunc)  {}
func (d *renewals) Show(http.Header)               {}

// An answer whose body nobody can close any more ends its lease, and the connection of its call, whatever goes on to live of its request.
func TestTransport_ForgottenBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := new(closes)
		stream := func(*http.Request) (*http.Response, error) {
			body.of = &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
			return body.of, nil
		}
		governed := doors.Open(&renewals{}, doors.Options{Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(streamed))
		func() {
			resp, err := govhttp.ClientMiddleware(governed, govhttp.Options{})(req, stream)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(err)
			}
		}()
		for range 200 {
			if governed.Forgotten() > 0 {
				break
			}
			runtime.GC()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if !body.Load() || governed.Forgotten() != 1 {
			t.Errorf("%d were found; the connection is closed: %t", governed.Forgotten(), body.Load())
		}
		if ctx.Err() != nil {
			t.Error("the request's context has ended")
		}
	})
}

// closes is the body of an answer, which it reaches as those of net/http do, and notes that it was closed.
type closes struct {
	atomic.Bool
	of *http.Response
}

func (*closes) Read([]byte) (int, error) { return 0, nil }
func (c *closes) Close() error           { c.Store(true); return nil }

// The trailers of an answer are there when it has been read.
func TestTransport_Trailers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{}`)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"Took", "1s")
	}))
	defer server.Close()
	governed := &http.Client{Transport: govhttp.Transport(doors.Open(&renewals{}, doors.Options{}), nil, govhttp.Options{})}
	resp := testkit.Must(governed.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamed)))(t)
	testkit.Must(io.ReadAll(resp.Body))(t)
	if resp.Trailer.Get("Took") != "1s" {
		t.Errorf("it has the trailers %v", resp.Trailer)
	}
}

// Requests of other routes pass, or fail, as Options.Unknown says.
func TestUnknown(t *testing.T) {
	errNo := errors.New("not here")
	for name, c := range map[string]struct {
		path    string
		says    error
		told    int
		passes  bool
		refuses bool
	}{
		"a route of another server":          {"/llm/generate", nil, 1, true, false},
		"a route of another server, refused": {"/v1beta/models/gemini-2.5-pro:generateContent", errNo, 1, false, true},
		"a governed one":                     {"/v1/chat/completions", errNo, 0, true, false},
	} {
		told := 0
		opt := govhttp.Options{
			Caller:  govhttp.Tenant("acme"),
			Unknown: func(*http.Request) error { told++; return c.says },
		}
		governed := doors.Open(&renewals{}, doors.Options{})
		passed := 0
		next := func(*http.Request) (*http.Response, error) {
			passed++
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
		}
		request := func() *http.Request {
			return httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, strings.NewReader(streamed))
		}
		resp, err := govhttp.ClientMiddleware(governed, opt)(request(), next)
		if errors.Is(err, errNo) != c.refuses || (passed == 1) != c.passes || told != c.told {
			t.Errorf("%s: %v; passed %d, told %d", name, err, passed, told)
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
		w := httptest.NewRecorder()
		govhttp.Middleware(governed, opt)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })).ServeHTTP(w, request())
		if want := map[bool]int{true: http.StatusAccepted, false: http.StatusNotFound}[c.passes]; w.Code != want || told != 2*c.told {
			t.Errorf("%s: served with %d, want %d; told %d", name, w.Code, want, told)
		}
	}
}

// The SDK reads a governed stream as it reads any, and it is charged what the model server produced.
func TestClientMiddleware_SDKStreams(t *testing.T) {
	s := newStack(t, nil)
	sdk := openai.NewClient(option.WithBaseURL(s.server.URL+"/v1"), option.WithAPIKey("sk-upstream"),
		option.WithMiddleware(govhttp.ClientMiddleware(s.client, govhttp.Options{Caller: govhttp.Tenant("acme")})))
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
		Model: "gpt-4o", MaxTokens: openai.Int(9), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hello")},
	})
	words := 0
	for stream.Next() {
		if len(stream.Current().Choices) == 0 {
			t.Error("a chunk that was not asked for")
		}
		words++
	}
	s.must(stream.Err())
	s.must(stream.Close())
	if produced := s.model.Stats().TokensProduced; words < 9 || s.charged() != produced {
		t.Errorf("%d chunks, charged %d tokens, produced %d", words, s.charged(), produced)
	}
}
