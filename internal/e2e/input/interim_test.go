package input

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// countedBody is a body that counts what is read of it.
type countedBody struct {
	io.Reader
	read atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

// A client that waits to be told to go on (curl does with a megabyte) is told as soon as its call
// may come, and one that may not is refused before it has sent its body. The upstream is asked for nothing of the kind.
func TestExpectContinue(t *testing.T) {
	s := sockets.New(t, sockets.World{
		Upstream: http.HandlerFunc(answers),
		Pool:     sockets.Pool(func(p *tenants.Pool) { p.TPM = 0 }),
		Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
			t.TPM = 0
			t.ITPM = 0
		})},
	})
	client := sockets.NewClient(t, func(rt http.RoundTripper) http.RoundTripper {
		rt.(*http.Transport).ExpectContinueTimeout = time.Hour
		return rt
	})
	for _, tc := range []struct {
		name, path, key string
		status          int
		goesOn          bool
	}{
		{"a call", "/v1/chat/completions", "", 200, true},
		{"a stranger's", "/v1/chat/completions", "stranger", 401, false},
		{"to nowhere", "/v1/nowhere", "", 404, false},
	} {
		for _, chunked := range []bool{false, true} {
			text := sockets.Chat(`,"x":"` + strings.Repeat("x", 2<<20) + `"`)
			body := &countedBody{Reader: strings.NewReader(text)}
			req := s.Request(http.MethodPost, tc.path, "", "Expect", "100-continue")
			req.Body = io.NopCloser(body)
			req.ContentLength = int64(len(text))
			if chunked {
				req.ContentLength = -1
			}
			if tc.key != "" {
				req.Header.Set("Authorization", "Bearer "+tc.key)
			}
			var toldTo atomic.Bool
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got100Continue: func() { toldTo.Store(true) }}))
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != tc.status || toldTo.Load() != tc.goesOn || (body.read.Load() > 0) != tc.goesOn {
				t.Errorf("%s, chunked %v: status %d, told to go on %v, sent %d bytes", tc.name, chunked, resp.StatusCode, toldTo.Load(), body.read.Load())
			}
		}
	}
	if got := s.Seen.Last(t).Header["Expect"]; got != nil {
		t.Errorf("the upstream is asked for %q", got)
	}
}

// What an upstream sends ahead of an answer (1xx) or behind it (trailers) stays in the gateway; the
// answer comes whole, by length, by chunks and as a stream.
func TestInterimAnswersAndTrailers(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"plain": func(w http.ResponseWriter) { _, _ = io.WriteString(w, plainAnswer) },
		"chunked": func(w http.ResponseWriter) {
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, plainAnswer)
		},
		"stream": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n")
		},
	} {
		s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Link", "</style.css>")
			for range 20 { // more than a client of Go takes that asks for none
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusProcessing)
			}
			w.Header().Del("Link")
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Trailer", "X-Checked, Openai-Organization")
			answer(w)
			w.Header().Set("X-Checked", "1")
			w.Header().Set("Openai-Organization", "somebody")
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", "1")
		})})
		req := s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(`,"stream":`+map[bool]string{true: "true", false: "false"}[name == "stream"]))
		interim := 0
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { interim++; return nil }}))
		resp := testkit.Must(s.Client.Do(req))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), "hi") && string(body) != plainAnswer {
			t.Errorf("%s: %d %q %v", name, resp.StatusCode, body, err)
		}
		if interim > 0 || len(resp.Trailer) > 0 || resp.Header.Get("Link") != "" || resp.Header.Get("Trailer") != "" {
			t.Errorf("%s: the client gets %d answers ahead, %v, and behind it %v", name, interim, resp.Header, resp.Trailer)
		}
	}
}
