package postgres

import (
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit"
)

// hole is a way to a server on which everything is lost while it is silent. What was under way by then is lost for good, as if
// it took minutes until it is sent again.
type hole struct {
	net.Listener
	t      *testing.T
	server string
	silent atomic.Bool
}

// throughHole opens a store by way of a hole.
func throughHole(t *testing.T, direct string) (*Store, *hole) {
	t.Helper()
	way := testkit.Must(url.Parse(direct))(t)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	h := &hole{Listener: l, t: t, server: way.Host}
	go h.serve()
	way.Host = l.Addr().String()
	return open(t, way.String()), h
}

func (h *hole) serve() {
	for {
		client, err := h.Accept()
		if err != nil {
			return
		}
		h.t.Cleanup(func() { client.Close() })
		server, err := net.Dial("tcp", h.server)
		if err != nil {
			return
		}
		h.t.Cleanup(func() { server.Close() })
		lost := &atomic.Bool{}
		go h.pass(client, server, lost)
		go h.pass(server, client, lost)
	}
}

func (h *hole) pass(from, to net.Conn, lost *atomic.Bool) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if h.silent.Load() {
			lost.Store(true)
		}
		gone := lost.Load()
		if err != nil {
			if !gone {
				to.Close()
			}
			return
		}
		if gone {
			continue
		}
		_, _ = to.Write(buf[:n])
	}
}

// TestSilent: after a time in which the server was silent, the next beat is answered, whatever has become of the connections of those
// that were not. A connection that is closed may hang for long, because nobody answers that either, and new ones do not wait for that.
func TestSilent(t *testing.T) {
	t.Parallel()
	s, way := throughHole(t, place(t))
	beat(t, s, join("a"))
	share := func(ctx context.Context) error {
		_, err := s.Share(ctx, []*parts.Beat{{Owner: "o", Instance: "a", Seq: 1}})
		return err
	}
	testkit.OK(t, share(t.Context()))
	hold(t, s, connections)
	way.silent.Store(true)
	for i := range connections {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		var err error
		switch i % 3 {
		case 0:
			_, err = s.Beat(ctx, "p", join("a"))
		case 1:
			_, err = s.Look(ctx, "p")
		case 2:
			err = share(ctx)
		}
		cancel()
		if err == nil {
			t.Fatal("a silent server has answered")
		}
	}
	way.silent.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // less than a connection that is closed may hang
	defer cancel()
	if _, err := s.Beat(ctx, "p", join("a")); err != nil {
		t.Error(err)
	}
}

// hold makes a store have so many connections.
func hold(t *testing.T, s *Store, n int) {
	t.Helper()
	for range n {
		conn := testkit.Must(s.db.Acquire(t.Context()))(t)
		defer conn.Release()
	}
}
