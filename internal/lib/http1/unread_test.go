package http1

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pipenet"
)

// certified are the settings of a server with a certificate.
var certified = sync.OnceValue(func() *tls.Config {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return &tls.Config{Certificates: server.TLS.Certificates}
})

// languages are those that slowHost speaks.
var languages = []string{"HTTP/1.1", "TLS", "HTTP/2"}

// slowHost runs a test in virtual time, with a transport to a server that takes nothing unless it reads, and whose answers have to begin
// within so long. It speaks plain HTTP/1.1, the same through TLS, or HTTP/2. What left ends is closed when the test is over.
func slowHost(t *testing.T, speaks string, within time.Duration, serve func(left chan struct{}) http.HandlerFunc, test func(t *testing.T, tr *Transport)) {
	secret := certified().Clone()
	synctest.Test(t, func(t *testing.T) {
		left := make(chan struct{})
		l := pipenet.Listen()
		server := &http.Server{Handler: serve(left), TLSConfig: secret, Protocols: &http.Protocols{}}
		server.Protocols.SetHTTP1(speaks != "HTTP/2")
		server.Protocols.SetHTTP2(speaks == "HTTP/2")
		done := make(chan error, 1)
		go func() {
			if speaks == "HTTP/1.1" {
				done <- server.Serve(l)
			} else {
				done <- server.ServeTLS(l, "", "")
			}
		}()
		tr := New(&http.Transport{
			DialContext: l.Dial, ResponseHeaderTimeout: within, Protocols: server.Protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		})
		test(t, tr)
		close(left)
		tr.CloseIdleConnections()
		_ = server.Shutdown(t.Context()) // which waits for those that linger
		<-done
	})
}

// upload is a request with so many bytes to a server that speaks so. Its body writes itself, or is only read.
func upload(ctx context.Context, speaks string, size int, plain bool) *http.Request {
	r := post(ctx, size)
	if speaks != "HTTP/1.1" {
		r.URL.Scheme = "https"
	}
	if plain {
		r.Body = io.NopCloser(bytes.NewReader(make([]byte, size)))
	}
	return r
}

// eachUpload runs a test for each language, with a body that writes itself and one that is only read.
func eachUpload(t *testing.T, test func(t *testing.T, speaks string, plain bool)) {
	for _, speaks := range languages {
		t.Run(speaks, func(t *testing.T) { test(t, speaks, false) })
		t.Run(speaks+", only read", func(t *testing.T) { test(t, speaks, true) })
	}
}

func readsNothing(left chan struct{}) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { <-left }
}

// A server that reads nothing of a long request ends it within the time of its answer, and a quarter, whatever it speaks.
func TestUnread(t *testing.T) {
	const within = time.Minute
	eachUpload(t, func(t *testing.T, speaks string, plain bool) {
		slowHost(t, speaks, within, readsNothing, func(t *testing.T, tr *Transport) {
			began := time.Now()
			_, err := tr.RoundTrip(upload(t.Context(), speaks, 2<<20, plain))
			took := time.Since(began)
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || took < within || took > within*5/4+mostLate {
				t.Errorf("%v after %v", err, took)
			}
		})
	})
}

// So it is by sockets, which hold some of the request.
func TestUnread_Sockets(t *testing.T) {
	left := make(chan struct{})
	defer close(left)
	h := serveTCP(t, func(net.Conn, int64) { <-left })
	h.settings.ResponseHeaderTimeout = 100 * time.Millisecond
	_, err := h.transport(t).RoundTrip(post(t.Context(), 16<<20))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Error(err)
	}
}

// The last piece of a request counts, too: HTTP/2 asks whether the body has ended before it sends that.
//
// Seen to fail with: a watch that stops at the end of the body.
func TestUnread_LastPiece(t *testing.T) {
	const (
		within = time.Minute
		window = 1 << 20 // that net/http's server gives a request
	)
	slowHost(t, "HTTP/2", within, readsNothing, func(t *testing.T, tr *Transport) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := tr.RoundTrip(upload(ctx, "HTTP/2", window+8<<10, true))
		if !errors.Is(err, errLate) || ctx.Err() != nil {
			t.Error(err)
		}
	})
}

// A server that reads slowly, but on, is waited for as long as it takes, and then for its answer.
func TestReadSlowly(t *testing.T) {
	const (
		within = time.Minute
		size   = 4 << 20
		pieces = 25
	)
	eachUpload(t, func(t *testing.T, speaks string, plain bool) {
		reads := func(chan struct{}) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				for range pieces {
					time.Sleep(within / 8)
					_, _ = io.CopyN(io.Discard, r.Body, size/pieces)
				}
				n, _ := io.Copy(io.Discard, r.Body)
				if n > size/pieces {
					t.Errorf("%d bytes are left", n)
				}
				_, _ = io.WriteString(w, "read")
			}
		}
		slowHost(t, speaks, within, reads, func(t *testing.T, tr *Transport) {
			began := time.Now()
			got := call(t, tr, upload(t.Context(), speaks, size, plain))
			if took := time.Since(began); got != "read" || took != pieces*within/8 {
				t.Errorf("%q after %v", got, took)
			}
		})
	})
}

// An answer that comes before all was read goes on for as long as it likes, though nothing more is read.
func TestAnsweredUnread(t *testing.T) {
	const within = time.Minute
	for _, speaks := range languages {
		t.Run(speaks, func(t *testing.T) {
			early := func(left chan struct{}) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					control := http.NewResponseController(w)
					_ = control.EnableFullDuplex()
					_ = control.Flush()
					time.Sleep(3 * within / 2)
					_, _ = io.WriteString(w, "early")
					_ = control.Flush()
					<-left
				}
			}
			slowHost(t, speaks, within, early, func(t *testing.T, tr *Transport) {
				resp := testkit.Must(tr.RoundTrip(upload(t.Context(), speaks, 2<<20, true)))(t)
				defer resp.Body.Close()
				got := make([]byte, len("early"))
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "early" {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// An answer is whole if its length is known, and all of it came in one piece with its head. Of one in chunks the end may
// be missing.
func TestWholeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []string
		whole  bool
	}{
		"at once":         {[]string{ok}, true},
		"more than it":    {[]string{ok + "!"}, true},
		"head alone":      {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"}, false},
		"half":            {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", "k"}, false},
		"chunked":         {[]string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"}, false},
		"until it closes": {[]string{"HTTP/1.1 200 OK\r\n\r\nok"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, func(conn net.Conn, _ int64) {
				_, _ = conn.Read(make([]byte, 4<<10))
				for _, piece := range c.pieces {
					_, _ = io.WriteString(conn, piece)
				}
			})
			resp := testkit.Must(h.transport(t).RoundTrip(get(t.Context())))(t)
			defer resp.Body.Close()
			if got := resp.Body.(*exchange).Whole(); got != c.whole {
				t.Errorf("whole: %v", got)
			}
			if text, _ := io.ReadAll(resp.Body); string(text) != "ok" {
				t.Errorf("%q", text)
			}
		})
	}
}
