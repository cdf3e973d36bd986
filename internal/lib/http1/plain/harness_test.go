package plain

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newPipe is a listener that accepts one connection, and its client's side.
func newPipe() (net.Conn, net.Listener) {
	client, server := net.Pipe()
	l := newHanded(server.LocalAddr())
	go l.hand(server)
	return client, l
}

// serving serves in the way of a Server on sockets, until the test ends, and returns the address.
func serving(t *testing.T, h http.HandlerFunc) string {
	return servingBy(t, New(settings(h)))
}

func settings(h http.HandlerFunc) *http.Server {
	return &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
}

// servingBy serves by a server, whose connections end with the test. net/http's server waits for them in Shutdown alone.
func servingBy(t *testing.T, s interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
},
) string {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		if _, ours := s.(*Server); ours {
			_ = s.Close()
		} else {
			_ = s.Shutdown(context.Background())
		}
		<-done
	})
	return l.Addr().String()
}

// client is a connection to a server.
type client struct {
	*testing.T
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, address string) *client {
	conn := testkit.Must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

// send sends a text.
func (c *client) send(raw string) {
	c.Helper()
	if _, err := io.WriteString(c.Conn, raw); err != nil {
		c.Error(err)
	}
}

// try sends as much of a text as the server takes.
func (c *client) try(raw string) int {
	n, _ := io.WriteString(c.Conn, raw)
	return n
}

// answer is what a client sees.
type answer struct {
	Failed bool // there is none
	Status int
	Dated  bool
	Header http.Header // but Date
	Length int64
	Chunks []string // Transfer-Encoding
	Close  bool
	Body   string
	Broken bool // in its body
}

// receive reads one answer.
func (c *client) receive() answer {
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return answer{Failed: true}
	}
	body, err := io.ReadAll(resp.Body)
	dated := resp.Header.Get("Date") != ""
	resp.Header.Del("Date")
	return answer{
		Status: resp.StatusCode, Dated: dated, Header: resp.Header, Length: resp.ContentLength, Chunks: resp.TransferEncoding, Close: resp.Close,
		Body: string(body), Broken: err != nil,
	}
}

// ask sends a plain request, and reads the answer.
func (c *client) ask(path, body string) answer {
	c.send(request(path, body))
	return c.receive()
}

// request is a plain one.
func request(path, body string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: gateway\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// echo answers with the request's body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, r.Method+" "+string(body))
}

// servedBy tells whose the body of a request is.
func servedBy(r *http.Request) string {
	if _, ours := r.Body.(*body); ours {
		return "us"
	}
	return "net/http"
}

// big is longer than all buffers.
var big = strings.Repeat("0123456789", 10_000)
