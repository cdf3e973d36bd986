package sockets

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Recorder keeps the requests that the upstream was sent.
type Recorder struct {
	next http.Handler

	mu       sync.Mutex
	requests []Request // guarded by mu
}

func (rec *Recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		rec.mu.Lock()
		rec.requests = append(rec.requests, Request{r.URL.Path, r.URL.RawQuery, r.Header.Clone(), string(body)})
		rec.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	rec.next.ServeHTTP(w, r)
}

// Last is the request that the upstream was sent last.
func (rec *Recorder) Last(t *testing.T) Request {
	t.Helper()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.requests) == 0 {
		t.Fatal("the upstream was asked nothing")
	}
	return rec.requests[len(rec.requests)-1]
}

// Forget drops the requests so far.
func (rec *Recorder) Forget() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.requests = nil
}

// Count is the number of requests that the upstream was sent.
func (rec *Recorder) Count() int {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return len(rec.requests)
}

// Request is one request that the upstream was sent.
type Request struct {
	Path   string
	Query  string
	Header http.Header
	Body   string
}

// Transport stands between an SDK and its connections: it puts the tenant's
// key where a test wants it, adds the model server's hook to bodies, and keeps
// the answers' headers.
type Transport struct {
	next   http.RoundTripper
	Header string // where the key goes instead of Authorization
	Hook   string // value of the body's "mock" member

	mu      sync.Mutex
	answers []Exchange // guarded by mu
}

func (tr *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if tr.Header != "" {
		r.Header.Set(tr.Header, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		r.Header.Del("Authorization")
	}
	if tr.Hook != "" && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = append([]byte(`{"mock":`+tr.Hook+`,`), bytes.TrimPrefix(bytes.TrimSpace(body), []byte("{"))...)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		r.GetBody = nil
	}
	sent := time.Now()
	resp, err := tr.next.RoundTrip(r)
	if err == nil {
		tr.mu.Lock()
		tr.answers = append(tr.answers, Exchange{sent, time.Now(), resp.StatusCode, resp.Header, r.Header})
		tr.mu.Unlock()
	}
	return resp, err
}

// All are the exchanges so far.
func (tr *Transport) All() []Exchange {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return append([]Exchange(nil), tr.answers...)
}

// Last is the last exchange.
func (tr *Transport) Last(t *testing.T) Exchange {
	t.Helper()
	all := tr.All()
	if len(all) == 0 {
		t.Fatal("nothing was answered")
	}
	return all[len(all)-1]
}

// Dial makes the connection of an SDK's client.
func (tr *Transport) Dial(t *testing.T) *http.Client {
	t.Helper()
	return NewClient(t, func(next http.RoundTripper) http.RoundTripper {
		tr.next = next
		return tr
	})
}

type Exchange struct {
	Sent, Came time.Time
	Status     int
	Header     http.Header
	Request    http.Header
}
