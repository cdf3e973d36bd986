package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// narrow is a listener of sockets that take little before it is read.
type narrow struct{ net.Listener }

// Accept implements net.Listener.
func (l narrow) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if socket, ok := conn.(*net.TCPConn); ok {
		_ = socket.SetReadBuffer(32 << 10)
	}
	return conn, err
}

// slowHost is a server behind real sockets, and a transport to it whose answers have to begin within so long. It speaks plain HTTP/1.1, the
// same through TLS, or HTTP/2.
func slowHost(t *testing.T, speaks string, within time.Duration, h http.HandlerFunc) (*Transport, string) {
	server := httptest.NewUnstartedServer(h)
	server.Listener = narrow{server.Listener}
	settings := &http.Transport{}
	if speaks == "HTTP/1.1" {
		server.Start()
	} else {
		server.EnableHTTP2 = speaks == "HTTP/2"
		server.StartTLS()
		settings = server.Client().Transport.(*http.Transport)
	}
	settings.ResponseHeaderTimeout = within
	settings.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			_ = conn.(*net.TCPConn).SetWriteBuffer(32 << 10)
		}
		return conn, err
	}
	tr := New(settings)
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return tr, server.URL
}

var languages = []string{"HTTP/1.1", "TLS", "HTTP/2"}

// upload is a request with so many bytes. Its body writes itself, or is only read.
func upload(ctx context.Context, url string, size int, plain bool) *http.Request {
	r := post(ctx, size)
	to, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		panic(err)
	}
	r.URL = to.URL
	r.Host = to.Host
	if plain {
		r.Body = io.NopCloser(bytes.NewReader(make([]byte, size)))
	}
	return r
}

// A server that reads nothing of a long request ends it within the time of its answer, and a quarter, whatever it speaks.
func TestUnread(t *testing.T) {
	const within = 400 * time.Millisecond
	for _, speaks := range languages {
		for _, plain := range []bool{false, true} {
			t.Run(speaks, func(t *testing.T) {
				t.Parallel()
				left := make(chan struct{})
				defer close(left)
				tr, url := slowHost(t, speaks, within, func(http.ResponseWriter, *http.Request) { <-left })
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				began := time.Now()
				_, err := tr.RoundTrip(upload(ctx, url, 16<<20, plain))
				took := time.Since(began)
				var timeout net.Error
				if !errors.As(err, &timeout) || !timeout.Timeout() || ctx.Err() != nil || took < within {
					t.Errorf("%v after %v", err, took)
				}
			})
		}
	}
}

// The last piece of a request counts, too: HTTP/2 asks whether the body has ended before it sends that.
//
// Seen to fail with: a watch that stops at the end of the body.
func TestUnread_LastPiece(t *testing.T) {
	const (
		within = 400 * time.Millisecond
		window = 1 << 20 // that net/http's server gives a request
	)
	left := make(chan struct{})
	defer close(left)
	tr, url := slowHost(t, "HTTP/2", within, func(http.ResponseWriter, *http.Request) { <-left })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := tr.RoundTrip(upload(ctx, url, window+8<<10, true))
	if !errors.Is(err, errUnread) || ctx.Err() != nil {
		t.Error(err)
	}
}

// A server that reads slowly, but on, is waited for as long as it takes, and then for its answer.
func TestReadSlowly(t *testing.T) {
	const (
		within = 2 * time.Second
		size   = 4 << 20
		pieces = 25
	)
	for _, speaks := range languages {
		for _, plain := range []bool{false, true} {
			t.Run(speaks, func(t *testing.T) {
				t.Parallel()
				tr, url := slowHost(t, speaks, within, func(w http.ResponseWriter, r *http.Request) {
					for range pieces {
						time.Sleep(3 * within / 2 / pieces)
						_, _ = io.CopyN(io.Discard, r.Body, size/pieces)
					}
					n, _ := io.Copy(io.Discard, r.Body)
					if n > size/pieces {
						t.Errorf("%d bytes are left", n)
					}
					_, _ = io.WriteString(w, "read")
				})
				began := time.Now()
				got := call(t, tr, upload(t.Context(), url, size, plain))
				if took := time.Since(began); got != "read" || took < within*5/4 {
					t.Errorf("%q after %v", got, took)
				}
			})
		}
	}
}

// An answer that comes before all was read goes on for as long as it likes, though nothing more is read.
func TestAnsweredUnread(t *testing.T) {
	const within = time.Second
	for _, speaks := range languages {
		t.Run(speaks, func(t *testing.T) {
			t.Parallel()
			left := make(chan struct{})
			defer close(left)
			tr, url := slowHost(t, speaks, within, func(w http.ResponseWriter, _ *http.Request) {
				_ = http.NewResponseController(w).EnableFullDuplex()
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(3 * within / 2)
				_, _ = io.WriteString(w, "early")
				_ = http.NewResponseController(w).Flush()
				<-left
			})
			resp, err := tr.RoundTrip(upload(t.Context(), url, 16<<20, true))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got := make([]byte, len("early"))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "early" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
