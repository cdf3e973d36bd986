// Package memory tests how much memory calls hold in the gateway's process, and that it goes back.
//
// Clients and upstreams are bare connections in the same process, without goroutines or buffers of their own: all
// that a call adds to the process is the gateway's.
package memory

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// holding is what the process holds after a collection of garbage.
type holding struct {
	bytes      int // of heap and stacks
	goroutines int
}

func measure() holding {
	for range 5 { // each collection halves stacks that are larger than needed; two empty pools
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return holding{bytes: int(m.HeapAlloc + m.StackInuse), goroutines: runtime.NumGoroutine()}
}

// settled waits until no goroutine has ended for a while, and measures then. It is no more than a beginning: where some end
// later, they let a test bear too much, and fail none.
func settled() holding {
	for before := 0; before != runtime.NumGoroutine(); {
		before = runtime.NumGoroutine()
		time.Sleep(20 * time.Millisecond)
	}
	return measure()
}

// since waits until the process holds at most so much more than before: on a busy machine, what is over is still ending for
// a while. It returns how much more that is, also if it stays more.
func (before holding) since(most holding) (more holding) {
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		now := measure()
		more = holding{bytes: now.bytes - before.bytes, goroutines: now.goroutines - before.goroutines}
		if more.bytes <= most.bytes && more.goroutines <= most.goroutines || time.Now().After(until) {
			return more
		}
	}
}

// patience is how long something may go on that is over.
const patience = 20 * time.Second

// newStack starts a gateway whose limits no test reaches.
func newStack(t *testing.T, up *upstream, kept *objects.Store, names ...string) *sockets.Stack {
	t.Helper()
	var list []tenants.Tenant
	for _, name := range names {
		list = append(list, sockets.Tenant(name, func(t *tenants.Tenant) {
			t.TPM = 0
			t.RPM = 0
			t.Concurrency = 0
		}))
	}
	pool := sockets.Pool(func(p *tenants.Pool) {
		p.TPM = 1_000_000_000
		p.RPM = 1_000_000
		p.Concurrency = 0
	})
	return sockets.New(t, sockets.World{BaseURL: up.url + "/v1", TLS: up.trust, Pool: pool, Tenants: list, Objects: kept})
}

// upstream is a model server that reads one request after the other, and leaves the answers to the test.
type upstream struct {
	url     string
	trust   *tls.Config   // of its clients; nil without TLS
	arrived chan net.Conn // after its request was read
}

func newUpstream(t *testing.T, most int) *upstream {
	t.Helper()
	skipUnderRace(t)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	u := &upstream{url: "http://" + l.Addr().String(), arrived: make(chan net.Conn, most)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.serve(l)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return u
}

func skipUnderRace(t *testing.T) {
	t.Helper()
	if testkit.Race {
		t.Skip("the race detector takes memory of its own")
	}
}

func (u *upstream) serve(l net.Listener) {
	in := bufio.NewReader(nil)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		in.Reset(c)
		r, err := http.ReadRequest(in)
		if err != nil {
			_ = c.Close()
			continue
		}
		_, _ = io.Copy(io.Discard, r.Body)
		u.arrived <- c
	}
}

// next waits for requests, and returns their connections.
func (u *upstream) next(n int) []net.Conn {
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = <-u.arrived
	}
	return conns
}

// connect opens a connection for the time of the test.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	c := testkit.Must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// send writes a request as the SDK of OpenAI does.
func send(t *testing.T, c net.Conn, tenant, body string) {
	t.Helper()
	ask(t, c, "/v1/chat/completions", tenant, body)
}

// ask is send to another path.
func ask(t *testing.T, c net.Conn, path, tenant, body string) {
	t.Helper()
	request(t, c, path, tenant, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
}

// sendChunked is send without the body's length.
func sendChunked(t *testing.T, c net.Conn, tenant, body string) {
	t.Helper()
	request(t, c, "/v1/chat/completions", tenant, fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body))
}

func request(t *testing.T, c net.Conn, path, tenant, rest string) {
	t.Helper()
	testkit.Must(io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: gateway\r\nUser-Agent: OpenAI/Python 1.99.1\r\n"+
		"Accept: application/json\r\nContent-Type: application/json\r\nAuthorization: Bearer "+sockets.Key(tenant)+"\r\n"+rest))(t)
}

// readUntil reads from a connection until a text has come.
func readUntil(t *testing.T, c net.Conn, text string) {
	t.Helper()
	var buf [8 << 10]byte
	n := 0
	for !bytes.Contains(buf[:n], []byte(text)) {
		more, err := c.Read(buf[n:])
		if err != nil {
			t.Fatalf("%v after %q", err, buf[:n])
		}
		n += more
	}
}
