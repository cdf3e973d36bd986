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
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
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

// A bound under a name that the route does not know holds nothing and clamps
// nothing: fifty calls of a thousand tokens do not pass a budget of ten.
func TestAbuse_ForeignBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := harness.Tenant("a", 1)
		a.MaxOutputTokens = 1000
		w := harness.World{Pool: harness.Pool(10_500, 0, 0), Tenants: []tenants.Tenant{a}, Mock: mock.Config{TPM: 10_500}}
		w.Pool.Burst = time.Minute
		w.Pool.BurstSet = true
		s := harness.New(t, w)
		time.Sleep(time.Minute)
		for range 50 {
			s.Call(t.Context(), "a", `{"model":"m","messages":[{"role":"user","content":"x"}],"max_output_tokens":1,"mock":{"output_tokens":3000}}`)
		}
		if st := s.Mock.Stats(); st.Requests > 10 || st.Refused != 0 || st.OutputTokens > st.Requests*1000 {
			t.Errorf("%d calls reached the model server, %d were refused there, %d tokens produced", st.Requests, st.Refused, st.OutputTokens)
		}
	})
}

// Every prompt of a completions call is answered, and held for.
func TestAbuse_ManyPrompts(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	reply := s.Post("/v1/completions", `{"model":"gpt-4o","prompt":["`+strings.Repeat(`x","`, 9)+`x"],"max_tokens":50}`)
	s.WaitIdle()
	if held, took := s.Charged("held"), s.Charged("output"); reply.Status != 200 || held < took {
		t.Errorf("status %d: held %d, took %d: %s", reply.Status, held, took, reply.Body)
	}
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

// Multipart that readers could take apart differently is refused.
func TestAbuse_Forms(t *testing.T) {
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(answers)})
	part := func(disposition, value string) string {
		return "--y\r\nContent-Disposition: " + disposition + "\r\n\r\n" + value + "\r\n"
	}
	model := part(`form-data; name="model"`, "gpt-4o")
	for _, tc := range []struct {
		name, kind, body string
		status           int
	}{
		{"plain", "multipart/form-data; boundary=y", model + "--y--\r\n", 200},
		{"two boundaries", "multipart/form-data; boundary=y; boundary*=us-ascii''x", model + "--y--\r\n", 400},
		{"a charset", "multipart/form-data; boundary=y; charset=utf-7", model + "--y--\r\n", 400},
		{"an attachment named model", "multipart/form-data; boundary=y", model + part(`attachment; name="model"`, "o3") + "--y--\r\n", 400},
		{"two dispositions", "multipart/form-data; boundary=y", model + "--y\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\no3\r\n--y--\r\n", 400},
		{"an extended name", "multipart/form-data; boundary=y", model + part(`form-data; name*=utf-8''model`, "o3") + "--y--\r\n", 400},
		{"model twice", "multipart/form-data; boundary=y", model + model + "--y--\r\n", 400},
		{"more behind the end", "multipart/form-data; boundary=y", model + "--y--\r\n" + model, 400},
		{"no end", "multipart/form-data; boundary=y", model, 400},
	} {
		if reply := s.Post("/v1/audio/transcriptions", tc.body, "Content-Type", tc.kind); reply.Status != tc.status {
			t.Errorf("%s: status %d, want %d: %s", tc.name, reply.Status, tc.status, reply.Body)
		}
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
		if got := s.CallTo(t.Context(), "/audio/transcriptions", "a", form.String(), "Content-Type", fields.FormDataContentType()); got.Status != 200 {
			t.Errorf("3 MB of sound in a form: %d %s", got.Status, got.Body)
		}
		base64 := strings.Repeat("QUFB", 1<<20)
		for name, part := range map[string]string{
			"sound": `{"type":"input_audio","input_audio":{"data":"` + base64 + `","format":"mp3"}}`,
			"image": `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64 + `"}}`,
		} {
			if got := s.Call(t.Context(), "a", `{"model":"m","messages":[{"role":"user","content":[`+part+`]}],"max_tokens":1}`); got.Status != 200 {
				t.Errorf("3 MB of %s in a chat: %d %s", name, got.Status, got.Body)
			}
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
	s := sockets.New(t, sockets.World{BaseURL: "https://127.0.0.1:1/v1"})
	s.Post("/v1/chat/completions", sockets.Chat(``)).WantProblem(t, 502, "upstream_error")
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

// Informational answers of the upstream do not take llmgov's headers with them.
func TestHeaders_BehindEarlyHints(t *testing.T) {
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		answers(w, r)
	})})
	reply := s.Post("/v1/chat/completions", sockets.Chat(``))
	if reply.Status != 200 || reply.Header.Get("X-Request-Id") == "" {
		t.Errorf("behind a 103: %d, %v", reply.Status, reply.Header)
	}
	sockets.WantRateHeaders(t, reply.Header)
}

// The head of a stream does not wait for its first event, and what is about the connection to
// the upstream stays there.
func TestHeadersOfAStream(t *testing.T) {
	first := make(chan struct{})
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Connection", "x-hop")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "timeout=5")
		h.Add("Vary", "1")
		h.Add("Vary", "2")
		_ = http.NewResponseController(w).Flush()
		<-first
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n")
	})})
	resp := testkit.Must(s.Client.Do(s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(`,"stream":true`))))(t)
	defer resp.Body.Close()
	close(first) // not before its head has come
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(body), "[DONE]\n\n") {
		t.Errorf("%q, %v", body, err)
	}
	sockets.WantRateHeaders(t, resp.Header)
	for _, name := range []string{"X-Hop", "Keep-Alive", "Connection"} {
		if v := resp.Header.Values(name); v != nil {
			t.Errorf("%s of the upstream's connection was passed on: %q", name, v)
		}
	}
	if v := resp.Header.Values("Vary"); !slices.Equal(v, []string{"1", "2"}) {
		t.Errorf("Vary: %q", v)
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
