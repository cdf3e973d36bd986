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

	store "github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

const event = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}` + "\n\n"

// stream is a request, and what comes of its answer before that falls silent: what has a Hello in it, and what comes after the client has that.
type stream struct{ path, body, come, then string }

// idle is a stream after its first event.
var idle = stream{
	path: "/v1/chat/completions",
	body: sockets.Chat(`,"stream":true,"max_tokens":100`),
	come: eventStream + chunk(event),
}

const eventStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// openStreams opens streams at a server.
func openStreams(t *testing.T, addr string, up *upstream, s stream, n int) {
	t.Helper()
	for range n {
		c := connect(t, addr)
		ask(t, c, s.path, "acme", s.body)
		there := <-up.arrived
		t.Cleanup(func() { _ = there.Close() })
		_, _ = io.WriteString(there, s.come)
		readUntil(t, c, "Hello")
		_, _ = io.WriteString(there, s.then)
	}
}

// wantPerStream opens n streams, and wants each to hold at most so much.
func wantPerStream(t *testing.T, addr string, up *upstream, s stream, n int, most holding) {
	t.Helper()
	if !testkit.LeanHTTP() { // net/http has buffers and two goroutines for each connection
		most.bytes += 40 * kb
		most.goroutines += 2
	}
	openStreams(t, addr, up, s, 20) // whatever is made once
	before := settled()
	openStreams(t, addr, up, s, n)
	imprecision := n / 10
	bound := holding{bytes: n * most.bytes, goroutines: n*most.goroutines + imprecision}
	got := before.since(bound)
	t.Logf("%.1f KB, %.2f goroutines", float64(got.bytes)/float64(n)/kb, float64(got.goroutines)/float64(n))
	if got.goroutines > bound.goroutines {
		t.Errorf("%d streams have %d goroutines, want at most %d each", n, got.goroutines, most.goroutines)
	}
	if got.bytes > bound.bytes {
		t.Errorf("%d streams hold %d KB, want at most %d KB each", n, got.bytes/kb, most.bytes/kb)
	}
}

const (
	kb         = 1024
	goroutines = 2 // a stream's own, and one that watches for the client going
)

// An idle stream has a goroutine of its own, and one that watches for the client going. The transport of HTTP/2 adds one. A prompt
// is held by no stream, but memory of some is kept to be used again. The bounds leave room for Go, which begins stacks with 2 or with 4 KB, as large
// as those are that there are.
func TestIdleStream(t *testing.T) {
	unframed := idle
	unframed.come = event
	long := idle
	long.body = strings.Replace(prompt, "{", `{"stream":true,"max_tokens":100,`, 1)
	for name, c := range map[string]struct {
		stream
		upstream func(t *testing.T, most int) *upstream
		most     holding
	}{
		"HTTP/1.1": {idle, newUpstream, holding{32 * kb, goroutines}},
		"a prompt": {long, newUpstream, holding{promptBytes / 2, goroutines}},
		"HTTP/2":   {unframed, newHTTP2Upstream, holding{40 * kb, goroutines + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			up := c.upstream(t, 1)
			addr := newStack(t, up, nil, "acme").Data.Listener.Addr().String()
			wantPerStream(t, addr, up, c.stream, testkit.Rounds(100, 200), c.most)
		})
	}
}

// A stream holds nothing of its request, even if that names thousands of files.
func TestIdleStream_References(t *testing.T) {
	const ids = 4000
	objects := sockets.OpenObjects(t, "")
	testkit.OK(t, objects.Own(t.Context(), store.Key{Upstream: "up", ID: "file-1"}, store.Entry{Kind: store.File, Owner: "acme"}))
	up := newUpstream(t, 1)
	addr := newStack(t, up, objects, "acme").Data.Listener.Addr().String()
	asks := idle
	asks.body = sockets.Chat(`,"stream":true,"max_tokens":100,"file_ids":["file-1"` + strings.Repeat(`,"file-1"`, ids-1) + `]`)
	wantPerStream(t, addr, up, asks, testkit.Rounds(20, 40), holding{ids * 20, goroutines})
}

// Other answers hold no more than an idle stream. Only what falls silent in the midst of an event, of a chunk's lines or of a long answer that is no
// stream holds the buffers in which its rest is expected.
func TestSilentAnswers(t *testing.T) {
	const (
		most   = 40 * kb
		buffer = 32 * kb
	)
	plain := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	delta := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\"}\n\n"
	cut := len(idle.come) - 1
	for name, c := range map[string]struct {
		stream
		most int
	}{
		"responses":           {stream{"/v1/responses", idle.body, eventStream + chunk(delta), ""}, most},
		"half an answer":      {stream{idle.path, idle.body, plain + chunk(`{"id":"Hello`+strings.Repeat(" ", 5000)), ""}, most + buffer},
		"half an event":       {stream{idle.path, idle.body, idle.come, chunk("data: {")}, most + buffer},
		"half a line end":     {stream{idle.path, idle.body, idle.come[:cut-1], idle.come[cut-1 : cut]}, most + buffer},
		"half a chunk's size": {stream{idle.path, idle.body, idle.come, "1"}, most + 2*buffer},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, 1)
			addr := newStack(t, up, sockets.OpenObjects(t, ""), "acme").Data.Listener.Addr().String()
			wantPerStream(t, addr, up, c.stream, testkit.Rounds(50, 100), holding{c.most, goroutines})
		})
	}
}

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
