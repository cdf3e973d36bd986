package memory

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/testkit"
)

const completion = `{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}`

var answered = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(completion), completion)

const promptBytes = 400_000

var prompt = `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("Once upon a time. ", promptBytes/18) + `"}]}`

// Prompts of 400 KB, which have all arrived and none of which is answered, hold at most twice their bytes, three times
// with garbage; and nothing once they are answered.
func TestLongPrompts(t *testing.T) {
	calls := testkit.Rounds(30, 100)
	for name, send := range map[string]func(*testing.T, net.Conn, string, string){"of known length": send, "chunked": sendChunked} {
		t.Run(name, func(t *testing.T) {
			names := []string{"acme", "bolt", "crux", "dyne"}
			up := newUpstream(t, calls)
			addr := newStack(t, up, nil, names...).Data.Listener.Addr().String()
			for _, name := range names { // whatever is made once
				c := connect(t, addr)
				send(t, c, name, sockets.Chat(""))
				answer(t, up.next(1), []net.Conn{c})
			}
			before := settled()
			var clients []net.Conn
			for i := range calls {
				c := connect(t, addr)
				send(t, c, names[i%len(names)], prompt)
				clients = append(clients, c)
			}
			there := up.next(calls)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			with := int(m.HeapAlloc+m.StackInuse) - before.bytes
			sent := calls * promptBytes
			live := before.since(holding{bytes: 2 * sent, goroutines: math.MaxInt}).bytes
			answer(t, there, clients)
			left := before.since(holding{bytes: sent / 20, goroutines: math.MaxInt}).bytes

			t.Logf("%.2f times the bytes, %.2f without garbage, %.3f afterwards", float64(with)/float64(sent), float64(live)/float64(sent), float64(left)/float64(sent))
			if live > 2*sent {
				t.Errorf("%d calls of %d bytes hold %d", calls, promptBytes, live)
			}
			if with > 3*sent && !testing.Short() { // how much garbage there is depends on the machine
				t.Errorf("%d calls of %d bytes hold %d with garbage", calls, promptBytes, with)
			}
			if left > sent/20 {
				t.Errorf("%d bytes are left of %d calls of %d bytes", left, calls, promptBytes)
			}
		})
	}
}

// answer answers calls, and ends their connections.
func answer(t *testing.T, upstreams, clients []net.Conn) {
	t.Helper()
	for _, u := range upstreams {
		_, _ = io.WriteString(u, answered)
	}
	for _, c := range clients {
		readUntil(t, c, "usage")
		_ = c.Close()
	}
	for _, u := range upstreams {
		_ = u.Close()
	}
}

// The frames of HTTP/2 that an upstream reads or writes, by RFC 9113.
const (
	dataFrame     = 0
	headersFrame  = 1
	settingsFrame = 4

	endStream  = 1
	endHeaders = 4

	preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameStart = 9
)

// newHTTP2Upstream is newUpstream for HTTP/2 over TLS. All its streams are on one connection.
func newHTTP2Upstream(t *testing.T, most int) *upstream {
	t.Helper()
	skipUnderRace(t)
	u := &upstream{arrived: make(chan net.Conn, most)}
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{NextProtos: []string{"h2"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": u.serveHTTP2}
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	u.url = server.URL
	u.trust = server.Client().Transport.(*http.Transport).TLSClientConfig
	return u
}

// serveHTTP2 reads requests, whose bodies together fit into the window that a connection begins with.
func (u *upstream) serveHTTP2(_ *http.Server, c *tls.Conn, _ http.Handler) {
	in := bufio.NewReader(c)
	_, _ = in.Discard(len(preface))
	_, _ = c.Write(frame(settingsFrame, 0, 0, ""))
	for {
		var start [frameStart]byte
		if _, err := io.ReadFull(in, start[:]); err != nil {
			return
		}
		length := binary.BigEndian.Uint32(start[:4]) >> 8
		_, _ = in.Discard(int(length))
		kind := start[3]
		ends := start[4]&endStream != 0
		if ends && (kind == dataFrame || kind == headersFrame) {
			u.arrived <- &http2Stream{Conn: c, id: binary.BigEndian.Uint32(start[5:])}
		}
	}
}

// http2Stream answers one request. Its first bytes come behind the headers of a stream of events.
type http2Stream struct {
	net.Conn
	id    uint32
	begun bool
}

// eventStreamHPACK is status 200, and Content-Type as a literal, by the static table of RFC 7541.
const eventStreamHPACK = "\x88\x0f\x10\x11text/event-stream"

// Write implements net.Conn.
func (s *http2Stream) Write(p []byte) (int, error) {
	if !s.begun {
		s.begun = true
		_, _ = s.Conn.Write(frame(headersFrame, endHeaders, s.id, eventStreamHPACK))
	}
	if _, err := s.Conn.Write(frame(dataFrame, 0, s.id, string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func frame(kind, flags byte, stream uint32, payload string) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	f = append(f, flags)
	f = binary.BigEndian.AppendUint32(f, stream)
	return append(f, payload...)
}
