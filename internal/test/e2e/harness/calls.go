package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Chat is a chat request's body; extra is more of its members.
func Chat(stream bool, maxTokens int, extra string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"How long is a piece of string?"}],"stream":%v,"max_tokens":%d%s}`, stream, maxTokens, extra)
}

// Post sends a call as a tenant. header is pairs of names and values.
func (s *Stack) Post(ctx context.Context, tenant, body string, header ...string) (*http.Response, error) {
	return s.PostTo(ctx, "/chat/completions", tenant, body, header...)
}

// PostTo is Post to another route.
func (s *Stack) PostTo(ctx context.Context, path, tenant, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+tenant)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return s.Client.Do(req)
}

// Answer is the outcome of a call.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error
}

// WantOK wants a status of 200. what says which answer it is.
func (a Answer) WantOK(t testing.TB, what ...any) {
	t.Helper()
	if a.Status != http.StatusOK {
		t.Errorf("%sstatus %d: %s %v", fmt.Sprintln(what...), a.Status, a.Body, a.Err)
	}
}

// Call sends a call and reads its whole answer.
func (s *Stack) Call(ctx context.Context, tenant, body string, header ...string) Answer {
	return s.CallTo(ctx, "/chat/completions", tenant, body, header...)
}

// CallTo is Call to another route.
func (s *Stack) CallTo(ctx context.Context, path, tenant, body string, header ...string) Answer {
	resp, err := s.PostTo(ctx, path, tenant, body, header...)
	if err != nil {
		return Answer{Err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(b), err}
}

// Get reads a path, such as /v1/usage, with a key.
func (s *Stack) Get(path, key string) Answer {
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, "http://gateway"+path, nil)
	if err != nil {
		s.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := s.Client.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(b), err}
}

// ReadAll reads a body up to its end, or to where it breaks off.
func ReadAll(resp *http.Response) string {
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// ErrorCode is error.code of a refusal's body.
func ErrorCode(body string) string { return ReadError(body).Code }

// ReadError is the error of a refusal's body.
func ReadError(body string) struct{ Code, Type, Message string } {
	var e struct {
		Error struct{ Code, Type, Message string }
	}
	_ = json.Unmarshal([]byte(body), &e)
	return e.Error
}

// RoundTripperFunc is a function as an http.RoundTripper.
type RoundTripperFunc func(*http.Request) (*http.Response, error)

func (f RoundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// OpenSession opens a session in virtual time.
func (s *Stack) OpenSession(ctx context.Context, tenant string) *websocket.Conn {
	s.T.Helper()
	conn, _, err := websocket.Dial(ctx, "http://gateway/v1/realtime?model=m", &websocket.DialOptions{
		HTTPClient: s.Client, HTTPHeader: http.Header{"Authorization": {"Bearer " + tenant}},
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return conn
}

// CRLF ends lines as forms do.
func CRLF(fields string) string { return strings.ReplaceAll(fields, "\n", "\r\n") }

// BatchForm is a form with a file of calls.
func BatchForm(lines ...string) string {
	return CRLF("--b\nContent-Disposition: form-data; name=\"purpose\"\n\nbatch\n--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\n\n") +
		strings.Join(lines, "\n") + CRLF("\n--b--\n")
}

// RandomPause is a duration between two numbers of milliseconds.
func RandomPause(from, to int64) time.Duration {
	return time.Duration(from*1000+rand.Int64N((to-from)*1000)) * time.Microsecond
}

// ErrOperator is an error whose text must not reach callers.
var ErrOperator = errors.New("only the operator is to know")
