package memory

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	store "github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/testkit"
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

// An idle stream has a goroutine of its own, and one that watches for the client going. The transport of HTTP/2 adds one. The bounds leave room
// for Go, which begins stacks with 2 or with 4 KB, as large as those are that there are.
func TestIdleStream(t *testing.T) {
	unframed := idle
	unframed.come = event
	for name, c := range map[string]struct {
		stream
		upstream func(t *testing.T, most int) *upstream
		most     holding
	}{
		"HTTP/1.1": {idle, newUpstream, holding{32 * kb, goroutines}},
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
