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

// Recorder keeps what the upstream was sent.
type Recorder struct {
	next http.Handler

	Mu       sync.Mutex
	Requests []Request // guarded by mu
}

func (rec *Recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		rec.Mu.Lock()
		rec.Requests = append(rec.Requests, Request{r.URL.Path, r.URL.RawQuery, r.Header.Clone(), string(body)})
		rec.Mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	rec.next.ServeHTTP(w, r)
}

// Last is what the upstream was sent last.
func (rec *Recorder) Last(t *testing.T) Request {
	t.Helper()
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	if len(rec.Requests) == 0 {
		t.Fatal("the upstream was asked nothing")
	}
	return rec.Requests[len(rec.Requests)-1]
}

func (rec *Recorder) Count() int {
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	return len(rec.Requests)
}

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

func (tr *Transport) All() []Exchange {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return append([]Exchange(nil), tr.answers...)
}

// Last is the last answer's status and headers.
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
