package admissionserver

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/llmgov/llmgov/internal/lib/connections"
)

// preface begins every connection of HTTP/2, and no request of HTTP/1.1.
const preface = "PRI "

// prefacePatience is how long a client may take to send as much.
const prefacePatience = 10 * time.Second

// split gives the connections of a listener to two servers, by the first bytes that clients send.
type split struct {
	net.Listener
	http, grpc *half
}

func newSplit(l net.Listener) *split {
	s := &split{Listener: l}
	s.http = &half{of: s, conns: make(chan *sorted), closed: make(chan struct{})}
	s.grpc = &half{of: s, conns: make(chan *sorted), closed: make(chan struct{})}
	return s
}

// run accepts connections until the listener is closed, and then closes those that neither server has.
func (s *split) run() error {
	serving, end := context.WithCancel(context.Background())
	var sorting sync.WaitGroup
	defer sorting.Wait()
	defer end()
	defer s.http.end()
	defer s.grpc.end()
	for {
		c, err := s.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		sorting.Go(func() { s.sort(serving, &sorted{Conn: c}) })
	}
}

// sort gives a connection to its server, or closes it when the context ends.
func (s *split) sort(serving context.Context, c *sorted) {
	stop := context.AfterFunc(serving, func() { _ = c.Close() })
	defer stop()
	_ = c.SetReadDeadline(time.Now().Add(prefacePatience))
	if _, err := io.ReadFull(c.Conn, c.first[:]); err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	c.left = c.first[:]
	to := s.http
	if string(c.left) == preface {
		to = s.grpc
		c.frames = newFrames()
	}
	select {
	case to.conns <- c:
	case <-to.closed:
		_ = c.Close()
	}
}

// half is the listener of one of the two servers.
type half struct {
	of     *split
	conns  chan *sorted
	closed chan struct{}
	once   sync.Once
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *half) end() { h.once.Do(func() { close(h.closed) }) }

func (h *half) Close() error {
	h.end()
	return h.of.Listener.Close()
}

func (h *half) Addr() net.Addr { return h.of.Listener.Addr() }

// sorted is a connection of which the first bytes were read. They are read again.
type sorted struct {
	net.Conn
	first  [len(preface)]byte
	left   []byte
	frames *frames // of gRPC
}

func (c *sorted) Read(b []byte) (n int, err error) {
	if len(c.left) == 0 {
		n, err = c.Conn.Read(b)
	} else {
		n = copy(b, c.left)
		c.left = c.left[n:]
	}
	if c.frames != nil && err == nil {
		err = c.frames.take(b[:n])
	}
	return n, err
}

// CloseWrite lets net/http end its side before it closes a connection with unread data.
func (c *sorted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// connContext is connections.Context for connections that were sorted.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if s, ok := c.(*sorted); ok {
		c = s.Conn
	}
	return connections.Context(ctx, c)
}

// plain are the credentials of connections without TLS: they let calls know their connection.
type plain struct{}

func (plain) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	from, _ := c.(*sorted)
	return c, connInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, connContext(context.Background(), c), from.frames}, nil
}

func (plain) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("admissionserver: these are a server's credentials")
}

func (plain) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "insecure"}
}

func (p plain) Clone() credentials.TransportCredentials { return p }

func (plain) OverrideServerName(string) error { return nil }

// connInfo is the connection of a call.
type connInfo struct {
	credentials.CommonAuthInfo
	conn   context.Context // for package connections
	frames *frames
}

func (connInfo) AuthType() string { return "insecure" }
