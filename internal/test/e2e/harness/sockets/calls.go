package sockets

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/e2e/harness"
)

// Chat is a chat request with more members at its end.
func Chat(extra string) string {
	return `{"model":"gpt-4o","messages":[{"role":"user","content":"Say something."}]` + extra + `}`
}

// Request makes a request of tenant acme to the data side.
func (s *Stack) Request(method, path, body string, header ...string) *http.Request {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.Data.URL+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+Key("acme"))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	return r
}

// Reply is an answer, read to its end.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Err    error // of reading the body
}

// Problem is the error in a reply; the reply must be one, well formed, and
// show nobody's key.
func (r Reply) Problem(t *testing.T) ErrorBody {
	t.Helper()
	if strings.Contains(r.Body, "must-not-leak") {
		t.Errorf("a key is shown to the caller: %s", r.Body)
	}
	var e ErrorBody
	if err := json.Unmarshal([]byte(r.Body), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" {
		t.Fatalf("status %d, not an error object: %.300s (%v)", r.Status, r.Body, err)
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("an error of Content-Type %q", ct)
	}
	return e
}

// WantProblem checks status and code of a refusal in OpenAI's dialect.
func (r Reply) WantProblem(t *testing.T, status int, code string) ErrorBody {
	t.Helper()
	e := r.Problem(t)
	if r.Status != status || e.Error.Code != code {
		t.Errorf("got %d %s (%s), want %d %s", r.Status, e.Error.Code, e.Error.Message, status, code)
	}
	if r.Header.Get("X-Request-Id") == "" {
		t.Errorf("%d %s without x-request-id", r.Status, e.Error.Code)
	}
	return e
}

// WantOK wants a status of 200. what says which reply it is.
func (r Reply) WantOK(t *testing.T, what ...any) {
	t.Helper()
	harness.Answer(r).WantOK(t, what...)
}

// Do sends a request and reads its answer.
func (s *Stack) Do(r *http.Request) Reply {
	s.T.Helper()
	resp, err := s.Client.Do(r)
	if err != nil {
		s.T.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, resp.Header, string(body), err}
}

func (s *Stack) Post(path, body string, header ...string) Reply {
	s.T.Helper()
	return s.Do(s.Request(http.MethodPost, path, body, header...))
}

// ErrorBody is an error body of either dialect.
type ErrorBody struct {
	Type  string
	Error struct {
		Message, Type, Code string
		Param               *string
	}
}

// SendAs sends a request as a tenant, and returns status and body.
func (s *Stack) SendAs(tenant, method, path, contentType, body string) (int, string) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.Data.URL+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+Key(tenant))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	resp, err := s.Client.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// SendOK sends a request with JSON as a tenant, wants a status of 200, and returns the body.
func (s *Stack) SendOK(tenant, method, path, body string) string {
	s.T.Helper()
	status, text := s.SendAs(tenant, method, path, "application/json", body)
	if status != http.StatusOK {
		s.T.Errorf("%s, %s %s %.1000s: status %d: %s", tenant, method, path, body, status, text)
	}
	return text
}

// RetryAfter checks the two headers of a passing refusal against each other,
// and returns when to come back.
func RetryAfter(t *testing.T, h http.Header) time.Duration {
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

// WantRateHeaders checks that each axis is reported, in the form that clients read.
func WantRateHeaders(t *testing.T, h http.Header) {
	t.Helper()
	for _, name := range RateHeaders {
		v := h.Get(name)
		if v == "" {
			t.Errorf("%s is missing", name)
			continue
		}
		var err error
		if strings.Contains(name, "Reset") {
			_, err = time.ParseDuration(v)
		} else {
			_, err = strconv.ParseUint(v, 10, 63)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", name, v, err)
		}
	}
	if h.Get("X-Request-Id") == "" {
		t.Error("x-request-id is missing")
	}
}

// RateHeaders are OpenAI's, and llmgov's of concurrent calls.
var RateHeaders = []string{
	"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests",
	"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens",
	"X-Ratelimit-Limit-Concurrent", "X-Ratelimit-Remaining-Concurrent",
}
