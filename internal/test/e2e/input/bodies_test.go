// Package input tests requests that are malformed, oversized, ambiguous or hostile.
package input

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// bodies is a world in which a tenant has memory for one megabyte of bodies, of four in all.
func bodies(list ...tenants.Tenant) harness.World {
	return harness.World{
		Mock: mock.Config{FirstToken: time.Second}, Pool: harness.Pool(0, 0, 1000), Tenants: list,
		Tune: func(c *tenants.Config) {
			c.MaxBody = 1 << 20
			c.BodyMemory = tenants.BodyMemory{Process: 4 << 20, Tenant: 1 << 20}
		},
	}
}

// patient is a tenant whose calls wait.
func patient(name string, wait time.Duration) tenants.Tenant {
	t := harness.Tenant(name, 1)
	t.MaxWait = wait
	return t
}

// slowBody sends its text, and then nothing until it is closed.
type slowBody struct {
	text *strings.Reader
	done chan struct{}
	once sync.Once
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.text.Len() > 0 {
		return b.text.Read(p)
	}
	<-b.done
	return 0, io.ErrUnexpectedEOF
}

func (b *slowBody) Close() error {
	b.once.Do(func() { close(b.done) })
	return nil
}

// send sends a body of which so many bytes never come. Without a length it is chunked.
func send(s *harness.Stack, tenant, body string, missing int, chunked bool) harness.Answer {
	length := int64(len(body))
	if chunked {
		length = -1
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://gateway/v1/chat/completions", nil)
	if err != nil {
		return harness.Answer{Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+tenant)
	req.ContentLength = length
	req.Body = io.NopCloser(strings.NewReader(body))
	if missing > 0 {
		slow := &slowBody{text: strings.NewReader(body[:len(body)-missing]), done: make(chan struct{})}
		defer slow.Close()
		req.Body = slow
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return harness.Answer{Err: err}
	}
	defer resp.Body.Close()
	if resp.Close { // net/http takes the header away
		resp.Header.Set("Connection", "close")
	}
	b, err := io.ReadAll(resp.Body)
	return harness.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(b), Err: err}
}

// large is a chat call of so many bytes.
func large(bytes int) string {
	body := harness.Chat(false, 5, "")
	return body + strings.Repeat(" ", bytes-len(body))
}

// memory is what bodies have now.
func memory(s *harness.Stack) int64 { return s.Sum("llmgov_body_memory_bytes", nil) }

// A tenant that sends many large bodies at the same time, none of which ever ends, has its own memory
// and no more; it is told to come back, and all others are served. Its memory is free again seconds
// after it has stopped sending.
func TestAudit_H5_BodiesThatNeverEnd(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			attacker := harness.Tenant("attacker", 1)
			attacker.Concurrency = 2
			s := harness.New(t, bodies(attacker, harness.Tenant("other", 1)))
			const connections = 100
			answers := make(chan harness.Answer, connections)
			for range connections {
				go func() { answers <- send(s, "attacker", large(900<<10), 1, chunked) }()
			}
			synctest.Wait()
			if n := memory(s); n > 1<<20+connections<<14 {
				t.Errorf("bodies have %d bytes of memory", n)
			}
			if a := send(s, "other", large(900<<10), 0, chunked); a.Status != http.StatusOK {
				t.Errorf("another tenant gets %d %s %v", a.Status, a.Body, a.Err)
			}
			refused := 0
			late := 0
			for range connections {
				a := <-answers
				switch e := harness.ReadError(a.Body); {
				case a.Status == http.StatusTooManyRequests && e.Code == "rate_limit_exceeded" && e.Type == "concurrency" && a.Header.Get("Retry-After") != "":
					refused++
				case a.Status == http.StatusRequestTimeout:
					late++
				default:
					t.Errorf("%d %s %v", a.Status, a.Body, a.Err)
				}
			}
			if refused < connections-8 || late == 0 {
				t.Errorf("%d were refused and %d were too slow", refused, late)
			}
			if a := send(s, "attacker", large(900<<10), 0, chunked); a.Status != http.StatusOK {
				t.Errorf("the tenant itself gets %d %s %v afterwards", a.Status, a.Body, a.Err)
			}
		})
	}
}

// The process's bound holds when many tenants send at the same time, and is told as such.
func TestAudit_H5_ProcessBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []tenants.Tenant
		for _, name := range strings.Fields("a b c d e f") {
			list = append(list, harness.Tenant(name, 1))
		}
		s := harness.New(t, bodies(append(list, patient("waiting", time.Minute))...))
		answers := make(chan harness.Answer, len(list))
		for i := range list {
			go func() { answers <- send(s, list[i].Name, large(1<<20), 1, false) }()
		}
		synctest.Wait()
		if n := memory(s); n != 3<<20 {
			t.Errorf("bodies have %d bytes of memory, want three quarters of 4 MiB", n)
		}
		s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t, "a small body")
		began := time.Now()
		if a := send(s, "waiting", large(1<<20), 0, false); a.Status != http.StatusOK || a.Header.Get("X-Llmgov-Queue-Ms") == "" {
			t.Errorf("a call that may wait gets %d %s, %v", a.Status, a.Body, a.Header)
		}
		if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		overloaded := 0
		for range list {
			if a := <-answers; a.Status == http.StatusServiceUnavailable && harness.ErrorCode(a.Body) == "overloaded" && a.Header.Get("Retry-After") != "" {
				overloaded++
			}
		}
		if overloaded != 3 {
			t.Errorf("%d calls are told that the gateway is overloaded, want 3", overloaded)
		}
	})
}

// Callers that wait for a slot hold their bodies, and others of the tenant wait for memory, no longer
// than they may in all.
func TestAudit_H5_WaitsInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme := patient("acme", 5*time.Second)
		acme.Concurrency = 1
		w := bodies(acme)
		w.Mock = mock.Config{FirstToken: 4 * time.Second}
		s := harness.New(t, w)
		began := time.Now()
		type end struct {
			harness.Answer
			after time.Duration
		}
		ends := make(chan end, 4)
		for range 4 {
			go func() {
				a := send(s, "acme", large(400<<10), 0, false)
				ends <- end{a, time.Since(began)}
			}()
		}
		served := 0
		for range 4 {
			e := <-ends
			if e.Status == http.StatusOK {
				served++
			} else if e.Status != http.StatusTooManyRequests || e.after > 6*time.Second {
				t.Errorf("after %s: %d %s", e.after, e.Status, e.Body)
			}
		}
		if served < 2 {
			t.Errorf("%d were served, want the first, and the one that waited 4 s", served)
		}
	})
}

// A client that sends at a moderate rate is served, one that drips is not.
func TestAudit_H5_SlowBodies(t *testing.T) {
	for _, c := range []struct {
		every  time.Duration // for 16 KiB
		status int
	}{{500 * time.Millisecond, http.StatusOK}, {2 * time.Second, http.StatusRequestTimeout}} {
		synctest.Test(t, func(t *testing.T) {
			s := harness.New(t, bodies(harness.Tenant("acme", 1)))
			body := large(512 << 10)
			r, w := io.Pipe()
			go func() {
				for ; body != ""; body = body[16<<10:] {
					if _, err := io.WriteString(w, body[:16<<10]); err != nil {
						return
					}
					time.Sleep(c.every)
				}
				w.Close()
			}()
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/chat/completions", r)
			req.Header.Set("Authorization", "Bearer acme")
			req.ContentLength = 512 << 10
			resp := testkit.Must(s.Client.Do(req))(t)
			resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("16 KiB every %s: %d, want %d", c.every, resp.StatusCode, c.status)
			}
			r.Close()
			time.Sleep(5 * time.Second) // until both sides have noticed
		})
	}
}

// A body that waits for memory while it grows is not taken for one whose client is slow.
func TestAudit_H5_GrowingBodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bodies(patient("acme", time.Minute))
		w.Mock = mock.Config{FirstToken: 30 * time.Second}
		s := harness.New(t, w)
		first := make(chan harness.Answer, 1)
		go func() { first <- send(s, "acme", large(850<<10), 0, false) }()
		synctest.Wait()
		began := time.Now()
		a := send(s, "acme", large(900<<10), 0, true)
		if took := time.Since(began); a.Status != http.StatusOK || took < 20*time.Second {
			t.Errorf("after %s: %d %s", took, a.Status, a.Body)
		}
		if a := <-first; a.Status != http.StatusOK {
			t.Errorf("the first: %d %s", a.Status, a.Body)
		}
	})
}

// A request of unknown length ends its connection: beside it there may have been a Content-Length, by
// which another server may have found a second request in the body.
func TestAudit_L10_ChunkedEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, bodies(harness.Tenant("acme", 1)))
		if a := send(s, "acme", large(1000), 0, true); a.Status != http.StatusOK || a.Header.Get("Connection") != "close" {
			t.Errorf("chunked: %d, Connection: %q", a.Status, a.Header.Get("Connection"))
		}
		if a := send(s, "acme", large(1000), 0, false); a.Status != http.StatusOK || a.Header.Get("Connection") != "" {
			t.Errorf("with a length: %d, Connection: %q", a.Status, a.Header.Get("Connection"))
		}
	})
}

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
		sockets.WantRateHeaders(t, resp.Header)
		if interim > 0 || len(resp.Trailer) > 0 || resp.Header.Get("Link") != "" || resp.Header.Get("Trailer") != "" {
			t.Errorf("%s: the client gets %d answers ahead, %v, and behind it %v", name, interim, resp.Header, resp.Trailer)
		}
	}
}
