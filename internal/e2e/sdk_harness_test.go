package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

const (
	sdkUpstreamKey = "sk-upstream-must-not-leak"
	sdkKeyPrefix   = "sk-tenant-must-not-leak-"
	sdkPatience    = 10 * time.Second // for what happens at once on an idle machine
)

// sdkWorld is what a sdkStack is made of; zero fields have defaults.
type sdkWorld struct {
	mock     mock.Config
	upstream http.Handler  // instead of the mock
	mockInto **mock.Server // where such an upstream finds the mock
	baseURL  string        // instead of the upstream's
	pool     tenants.Pool
	tenants  []tenants.Tenant
	config   func(*tenants.Config)
	objects  *objects.Store
}

// sdkStack is client → gateway → upstream, on real sockets.
type sdkStack struct {
	t        *testing.T
	mock     *mock.Server
	seen     *sdkRecorder
	gov      *governor.Governor
	gw       *gateway.Gateway
	metrics  *telemetry.Metrics
	upstream *httptest.Server
	data     *httptest.Server
	admin    *httptest.Server
	client   *http.Client // bare, for what no SDK would send
}

// sdkKey is a tenant's key.
func sdkKey(tenant string) string { return sdkKeyPrefix + tenant }

// sdkTenant has limits on each axis, so that a leak shows.
func sdkTenant(name string, edit func(*tenants.Tenant)) tenants.Tenant {
	t := tenants.Tenant{
		Name: name, Tier: "t", Weight: 1000, Keys: []tenants.Key{{Hash: tenants.HashKey(sdkKey(name))}},
		TPM: 1_000_000, RPM: 1000, Concurrency: 64,
	}
	if edit != nil {
		edit(&t)
	}
	return t
}

func sdkPool(edit func(*tenants.Pool)) tenants.Pool {
	p := tenants.DefaultPool("main", "*", "gpt-4o", "text-embedding-3-small")
	p.TPM = 2_000_000
	p.RPM = 10_000
	p.Concurrency = 100
	// All of the minute at once: pacing is not what these tests are about.
	p.Burst = time.Minute
	p.BurstSet = true
	if edit != nil {
		edit(&p)
	}
	return p
}

func newSDKStack(t *testing.T, w sdkWorld) *sdkStack {
	t.Helper()
	s := &sdkStack{t: t, metrics: telemetry.New()}
	var err error
	s.mock, err = mock.New(w.mock)
	if err != nil {
		t.Fatal(err)
	}
	if w.mockInto != nil {
		*w.mockInto = s.mock
	}
	if w.upstream == nil {
		w.upstream = s.mock
	}
	s.seen = &sdkRecorder{next: w.upstream}
	s.upstream = sdkServe(t, s.seen)
	if w.baseURL == "" {
		w.baseURL = s.upstream.URL + "/v1"
	}
	if w.pool.Name == "" {
		w.pool = sdkPool(nil)
	}
	if w.tenants == nil {
		w.tenants = []tenants.Tenant{sdkTenant("acme", nil)}
	}
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: w.baseURL, APIKey: sdkUpstreamKey}}
	cfg.Pools = []tenants.Pool{w.pool}
	if w.config != nil {
		w.config(&cfg)
	}
	transport := gateway.NewTransport(cfg.Timeouts)
	t.Cleanup(transport.CloseIdleConnections)
	log := &sdkLog{}
	gw, gov := build(t, cfg, w.tenants, nil, nil, gateway.Options{Metrics: s.metrics, Log: slog.New(slog.NewJSONHandler(log, nil)), Transport: transport, Objects: w.objects})
	s.gov = gov
	s.gw = gw
	s.data = sdkServe(t, gw)
	s.admin = sdkServe(t, admin.New(gw, admin.Options{Governor: gov, Log: slog.New(slog.NewJSONHandler(log, nil)), Metrics: s.metrics.Handler(), Drain: func() {}}))
	s.client = sdkClient(t, nil)
	t.Cleanup(func() { // runs first: all servers are still there
		s.waitIdle()
		log.check(t)
	})
	return s
}

// sdkServe starts a server on a real socket; it ends with the test.
func sdkServe(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// sdkClient is an HTTP client whose connections end with the test.
func sdkClient(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	var rt http.RoundTripper = transport
	if wrap != nil {
		rt = wrap(rt)
	}
	return &http.Client{Transport: rt}
}

// sdkLog keeps the gateway's log, which must not show a key.
type sdkLog struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *sdkLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *sdkLog) check(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, secret := range []string{sdkUpstreamKey, sdkKeyPrefix} {
		if strings.Contains(l.text.String(), secret) {
			t.Errorf("the log shows %s…", secret)
		}
	}
	if strings.Contains(l.text.String(), `"msg":"panic"`) {
		t.Errorf("the gateway panicked:\n%s", l.text.String())
	}
}

// sdkRecorder keeps what the upstream was sent.
type sdkRecorder struct {
	next http.Handler

	mu       sync.Mutex
	requests []sdkRequest // guarded by mu
}

type sdkRequest struct {
	path   string
	query  string
	header http.Header
	body   string
}

func (rec *sdkRecorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		rec.mu.Lock()
		rec.requests = append(rec.requests, sdkRequest{r.URL.Path, r.URL.RawQuery, r.Header.Clone(), string(body)})
		rec.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	rec.next.ServeHTTP(w, r)
}

// last is what the upstream was sent last.
func (rec *sdkRecorder) last(t *testing.T) sdkRequest {
	t.Helper()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.requests) == 0 {
		t.Fatal("the upstream was asked nothing")
	}
	return rec.requests[len(rec.requests)-1]
}

func (rec *sdkRecorder) count() int {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return len(rec.requests)
}

// sdkTransport stands between an SDK and its connections: it puts the tenant's
// key where a test wants it, adds the model server's hook to bodies, and keeps
// the answers' headers.
type sdkTransport struct {
	next   http.RoundTripper
	header string // where the key goes instead of Authorization
	hook   string // value of the body's "mock" member

	mu      sync.Mutex
	answers []sdkAnswer // guarded by mu
}

type sdkAnswer struct {
	sent, came time.Time
	status     int
	header     http.Header
	request    http.Header
}

func (tr *sdkTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if tr.header != "" {
		r.Header.Set(tr.header, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		r.Header.Del("Authorization")
	}
	if tr.hook != "" && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = append([]byte(`{"mock":`+tr.hook+`,`), bytes.TrimPrefix(bytes.TrimSpace(body), []byte("{"))...)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		r.GetBody = nil
	}
	sent := time.Now()
	resp, err := tr.next.RoundTrip(r)
	if err == nil {
		tr.mu.Lock()
		tr.answers = append(tr.answers, sdkAnswer{sent, time.Now(), resp.StatusCode, resp.Header, r.Header})
		tr.mu.Unlock()
	}
	return resp, err
}

func (tr *sdkTransport) all() []sdkAnswer {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return append([]sdkAnswer(nil), tr.answers...)
}

// last is the last answer's status and headers.
func (tr *sdkTransport) last(t *testing.T) sdkAnswer {
	t.Helper()
	all := tr.all()
	if len(all) == 0 {
		t.Fatal("nothing was answered")
	}
	return all[len(all)-1]
}

// dial makes the connection of an SDK's client.
func (tr *sdkTransport) dial(t *testing.T) *http.Client {
	t.Helper()
	return sdkClient(t, func(next http.RoundTripper) http.RoundTripper {
		tr.next = next
		return tr
	})
}

// chatBody is a chat request with more members at its end.
func sdkChat(extra string) string {
	return `{"model":"gpt-4o","messages":[{"role":"user","content":"Say something."}]` + extra + `}`
}

// request makes a request of tenant acme to the data side.
func (s *sdkStack) request(method, path, body string, header ...string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.data.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+sdkKey("acme"))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	return r
}

// sdkReply is an answer, read to its end.
type sdkReply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// do sends a request and reads its answer.
func (s *sdkStack) do(r *http.Request) sdkReply {
	s.t.Helper()
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return sdkReply{resp.StatusCode, resp.Header, string(body), err}
}

func (s *sdkStack) post(path, body string, header ...string) sdkReply {
	s.t.Helper()
	return s.do(s.request(http.MethodPost, path, body, header...))
}

// sdkError is an error body of either dialect.
type sdkError struct {
	Type  string
	Error struct {
		Message, Type, Code string
		Param               *string
	}
}

// problem is the error in a reply; the reply must be one, well formed, and
// show nobody's key.
func (r sdkReply) problem(t *testing.T) sdkError {
	t.Helper()
	if strings.Contains(r.body, "must-not-leak") {
		t.Errorf("a key is shown to the caller: %s", r.body)
	}
	var e sdkError
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" {
		t.Fatalf("status %d, not an error object: %.300s (%v)", r.status, r.body, err)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("an error of Content-Type %q", ct)
	}
	return e
}

// wantProblem checks status and code of a refusal in OpenAI's dialect.
func (r sdkReply) wantProblem(t *testing.T, status int, code string) sdkError {
	t.Helper()
	e := r.problem(t)
	if r.status != status || e.Error.Code != code {
		t.Errorf("got %d %s (%s), want %d %s", r.status, e.Error.Code, e.Error.Message, status, code)
	}
	if r.header.Get("X-Request-Id") == "" {
		t.Errorf("%d %s without x-request-id", r.status, e.Error.Code)
	}
	return e
}

// sdkEventually polls until cond holds.
func sdkEventually(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// waitIdle waits until nothing runs, waits or is held any more.
func (s *sdkStack) waitIdle() {
	s.t.Helper()
	sdkEventually(s.t, sdkPatience, "no lease, no call in line, nothing running upstream", func() bool {
		running, waiting := s.gov.Leases()
		idle := running == 0 && waiting == 0 && s.leases() == 0
		for _, ts := range s.gov.State().Tenants {
			idle = idle && ts.Running == 0 && ts.InLine == 0
		}
		st := s.mock.Stats()
		return idle && st.Running == 0 && st.Queued == 0
	})
}

// adminGet reads an object of the admin API.
func (s *sdkStack) adminGet(path string, into any) {
	s.t.Helper()
	// Not the test's context: this also runs when it has ended.
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.admin.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// leases counts /api/v1/leases.
func (s *sdkStack) leases() int {
	var v struct{ Leases []json.RawMessage }
	s.adminGet("/api/v1/leases", &v)
	return len(v.Leases)
}

// used is what counts against a tenant's own limits, from /api/v1/tenants.
func (s *sdkStack) used(tenant string) map[string]int64 {
	s.t.Helper()
	var v struct {
		Tenants []struct {
			Name   string
			Limits []struct {
				Axis string
				Used int64
			}
		}
	}
	s.adminGet("/api/v1/tenants", &v)
	for _, t := range v.Tenants {
		if t.Name == tenant {
			used := map[string]int64{}
			for _, l := range t.Limits {
				used[l.Axis] = l.Used
			}
			return used
		}
	}
	s.t.Fatalf("/api/v1/tenants does not show %s", tenant)
	return nil
}

// wantUnused checks that a tenant's calls left no trace in its limits.
func (s *sdkStack) wantUnused(tenant string) {
	s.t.Helper()
	s.waitIdle()
	for axis, used := range s.used(tenant) {
		if used != 0 {
			s.t.Errorf("%d %s of %s stay used", used, axis, tenant)
		}
	}
}

// charged sums llmgov_tokens_total over a kind.
func (s *sdkStack) charged(kind string) int64 {
	s.t.Helper()
	return counted(s.t, s.metrics, "llmgov_tokens_total", map[string]string{"kind": kind})
}

// wantChargedAsProduced checks that what was charged is what the model server
// says it produced, to the token.
func (s *sdkStack) wantChargedAsProduced(tenant string) {
	s.t.Helper()
	s.waitIdle()
	st := s.mock.Stats()
	if in, out := s.charged("input"), s.charged("output"); in != st.PromptTokens || out != st.OutputTokens {
		s.t.Errorf("charged %d + %d tokens; the model server took %d and produced %d", in, out, st.PromptTokens, st.OutputTokens)
	}
	if used := s.used(tenant)["tokens"]; used != st.TokensProduced {
		s.t.Errorf("%d tokens count against %s, the model server says %d", used, tenant, st.TokensProduced)
	}
}

// sdkRetryAfter checks the two headers of a passing refusal against each other,
// and returns when to come back.
func sdkRetryAfter(t *testing.T, h http.Header) time.Duration {
	t.Helper()
	ms, err1 := strconv.ParseInt(h.Get("Retry-After-Ms"), 10, 64)
	s, err2 := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatalf("retry-after-ms %q, retry-after %q: %v", h.Get("Retry-After-Ms"), h.Get("Retry-After"), err)
	}
	if want := int64(math.Ceil(float64(ms) / 1000)); ms < 1 || s != want || s < 1 {
		t.Errorf("retry-after is %d s, with retry-after-ms %d it should be %d", s, ms, want)
	}
	return time.Duration(ms) * time.Millisecond
}
