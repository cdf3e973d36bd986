package postgres

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit/pgtest"
)

// counter is a way to a server that counts round trips: how often a client says something after it has heard
// something, or at first.
type counter struct {
	net.Listener
	server string

	mu    sync.Mutex
	trips int
}

func newCounter(t *testing.T, server string) *counter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{Listener: l, server: server}
	t.Cleanup(func() { l.Close() })
	go c.serve()
	return c
}

func (c *counter) serve() {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			client.Close()
			continue
		}
		heard := true
		go c.pipe(client, server, func() {
			if heard {
				c.trips++
			}
			heard = false
		})
		go c.pipe(server, client, func() { heard = true })
	}
}

// pipe copies, and calls note under the lock before each part that it passes on.
func (c *counter) pipe(from io.Reader, to io.WriteCloser, note func()) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		note()
		c.mu.Unlock()
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// take returns the round trips since it was last called.
func (c *counter) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.trips
	c.trips = 0
	return n
}

// A beat takes two round trips, also if none was sent for a while, and nothing is asked for beforehand: each more would
// be another second with a server that is a second away.
func TestRoundTrips(t *testing.T) {
	direct := pgtest.New(t).URL()
	beat(t, open(t, direct), join("a")) // which makes the table
	way, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	c := newCounter(t, way.Host)
	way.Host = c.Addr().String()
	s := open(t, way.String())
	conn, err := s.db.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	conn.Release()
	c.take()
	beat(t, s, join("b"))
	if got := c.take(); got != 2 {
		t.Errorf("the first beat takes %d round trips", got)
	}
	time.Sleep(1100 * time.Millisecond) // as beats are apart
	beat(t, s, join("c"))
	if got := c.take(); got != 2 {
		t.Errorf("a later beat takes %d round trips", got)
	}
}
