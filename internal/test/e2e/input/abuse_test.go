package input

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// plainAnswer is a whole answer of three tokens.
const plainAnswer = `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`

func answers(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, plainAnswer)
}

// No call can turn its connection into something else.
func TestAbuse_Upgrade(t *testing.T) {
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "h2c")
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		answers(w, r)
	})})
	conn := testkit.Must(net.Dial("tcp", s.Data.Listener.Addr().String()))(t)
	defer conn.Close()
	body := sockets.Chat(``)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n%s", sockets.Key("acme"), len(body), body)
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(status, "200") {
		t.Errorf("an upgrade got %q, %v; want a plain 200", status, err)
	}
}

// A call whose answer was lost is sent again once at most, and charged for both, whatever its headers say.
func TestAbuse_NoReplay(t *testing.T) {
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		var calls atomic.Int64
		s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if b, _ := io.ReadAll(r.Body); bytes.Contains(b, []byte("cut")) {
				calls.Add(1)
				panic(http.ErrAbortHandler)
			}
			answers(w, r)
		})})
		for range 3 { // leave connections idle
			s.Post("/v1/chat/completions", sockets.Chat(``))
		}
		before := s.Charged("input")
		if reply := s.Post("/v1/chat/completions", sockets.Chat(`,"x":"cut"`), key, "k"); reply.Status != 502 || calls.Load() != 2 {
			t.Errorf("%s: status %d after %d calls upstream, want 502 after two", key, reply.Status, calls.Load())
		}
		if n := s.Charged("input") - before; n < before/3*2 {
			t.Errorf("%s: for both %d tokens are charged, and for three before them %d", key, n, before)
		}
	}
}

// What the head was read as is what the upstream is told it is, and trailers and
// queries say nothing beside it.
func TestAbuse_OneMeaning(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	s.Post("/v1/chat/completions", sockets.Chat(`,"a":"&model=expensive&"`), "Content-Type", "application/x-www-form-urlencoded")
	if got := s.Seen.Last(t).Header["Content-Type"]; len(got) != 1 || got[0] != "application/json" {
		t.Errorf("the upstream is told %q", got)
	}
	reply := s.Post("/v1/chat/completions?Model=expensive", sockets.Chat(``))
	reply.WantProblem(t, 400, "invalid_request_error")
	reply = s.Post("/v1/chat/completions", sockets.Chat(``), "Content-Encoding", "identity", "Content-Encoding", "gzip")
	if reply.Status != 400 {
		t.Errorf("a body in no encoding but the two that it claims got %d", reply.Status)
	}
}

// Sound and images are not prompts of a million tokens.
func TestAttachmentsAreNotTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := harness.World{Pool: harness.Pool(100_000, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}}
		w.Pool.Burst = time.Minute
		w.Pool.BurstSet = true
		w.Wrap = func(http.RoundTripper) http.RoundTripper {
			return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(plainAnswer)), Request: r}, nil
			})
		}
		s := harness.New(t, w)
		time.Sleep(time.Minute)
		var form bytes.Buffer
		fields := multipart.NewWriter(&form)
		_ = fields.WriteField("model", "m")
		file := testkit.Must(fields.CreateFormFile("file", "speech.mp3"))(t)
		_, _ = file.Write(bytes.Repeat([]byte{0xff, 'a', 7}, 1<<20))
		_ = fields.Close()
		s.CallTo(t.Context(), "/audio/transcriptions", "a", form.String(), "Content-Type", fields.FormDataContentType()).WantOK(t, "3 MB of sound in a form")
		base64 := strings.Repeat("QUFB", 1<<20)
		for name, part := range map[string]string{
			"sound": `{"type":"input_audio","input_audio":{"data":"` + base64 + `","format":"mp3"}}`,
			"image": `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64 + `"}}`,
		} {
			s.Call(t.Context(), "a", `{"model":"m","messages":[{"role":"user","content":[`+part+`]}],"max_tokens":1}`).WantOK(t, "3 MB of", name, "in a chat")
		}
	})
}

// An answer in plain JSON that falls silent in the middle is broken off, and so is
// an error of the upstream's.
func TestPlainAnswerFallsSilent(t *testing.T) {
	for _, status := range []int{200, 400} {
		synctest.Test(t, func(t *testing.T) {
			w := harness.World{Pool: harness.Pool(0, 0, 10), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, StreamIdle: 5 * time.Second}
			w.Wrap = func(http.RoundTripper) http.RoundTripper {
				return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
					body, hold := io.Pipe()
					go func() { // the upstream's body ends with its request, as a connection's does
						_, _ = io.WriteString(hold, `{"choices":[`)
						<-r.Context().Done()
						hold.CloseWithError(r.Context().Err())
					}()
					return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
				})
			}
			s := harness.New(t, w)
			began := time.Now()
			if a := s.Call(t.Context(), "a", harness.Chat(false, 10, "")); a.Err == nil {
				t.Errorf("an answer that broke off looks whole: %+v", a)
			}
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("it was broken off after %v, want 5s", took)
			}
		})
	}
}

// Who cannot be reached produced nothing, and an error took nothing, also when
// nobody reads it to its end.
func TestNothingIsChargedForNothing(t *testing.T) {
	s := sockets.New(t, sockets.World{BaseURL: fmt.Sprintf("http://127.0.0.1:%d/v1", testkit.Port(t))}) // where nobody listens
	for _, body := range []string{sockets.Chat(``), sockets.Chat(`,"stream":true`)} {
		if e := s.Post("/v1/chat/completions", body).WantProblem(t, 502, "upstream_error"); strings.Contains(e.Error.Message, "127.0.0.1") {
			t.Errorf("the upstream's address is the operator's business: %s", e.Error.Message)
		}
	}
	s.WantUnused("acme")

	s = sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":`+strings.Repeat(" ", 8<<10)) // its head waits for its beginning
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp := testkit.Must(s.Client.Do(s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(``)).WithContext(ctx)))(t)
	cancel()
	resp.Body.Close()
	s.WaitIdle()
	if in, out := s.Charged("input"), s.Charged("output"); in != 0 || out != 0 {
		t.Errorf("charged %d + %d for an error of the upstream's", in, out)
	}
}

// Connections that send nothing, or read nothing, end.
func TestSlowClientsEnd(t *testing.T) {
	for name, sends := range map[string]string{
		"no body, unknown key":   "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nobody\r\nContent-Length: 100\r\n\r\n",
		"no body, unknown route": "POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
		"no body":                "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nContent-Length: 100\r\n\r\n",
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			s := harness.New(t, harness.World{Pool: harness.Pool(1000, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
			conn := testkit.Must(s.Client.Transport.(*http.Transport).DialContext(t.Context(), "", ""))(t)
			defer conn.Close()
			began := time.Now()
			go func() { _, _ = io.WriteString(conn, sends) }()
			_, _ = io.Copy(io.Discard, conn)
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("the connection was open for %v", took)
			}
		})
	}
}
