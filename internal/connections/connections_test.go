package connections

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Whatever comes and goes, the bounds hold, only strangers that have had their time are closed, and
// those that came first go first.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := table{limits: Limits{All: 6, Strangers: 3, Grace: time.Second}}
		now := noon
		var open []*Conn
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * time.Millisecond)
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what < 2 || len(open) == 0:
				c := &Conn{}
				ok, old, wait := tab.admit(c, now)
				if ok {
					open = append(open, c)
				}
				full := len(open) == tab.limits.All || tab.strangers.Len() >= tab.limits.Strangers
				switch {
				case old != nil:
					if now.Sub(old.since) < time.Second || !old.removed {
						t.Fatalf("closed after %s", now.Sub(old.since))
					}
					for i, c := range open {
						if c == old {
							open = append(open[:i], open[i+1:]...)
							break
						}
						if c.stranger != nil {
							t.Fatal("an older stranger was left")
						}
					}
				case !ok && !full && wait == 0:
					t.Fatal("there is room")
				case wait > time.Second:
					t.Fatalf("wait %s", wait)
				}
			case what == 2:
				tab.know(rapid.SampledFrom(open).Draw(t, "known"))
			default:
				i := rapid.IntRange(0, len(open)-1).Draw(t, "closed")
				tab.remove(open[i])
				tab.remove(open[i])
				open = append(open[:i], open[i+1:]...)
			}
			s := tab.stats()
			if s.Open != len(open) || s.Open > 6 || s.Strangers > 3 {
				t.Fatalf("%+v, %d are open", s, len(open))
			}
		}
	})
}

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return nil }

// dial connects, and returns the client's side.
func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// Clients that never show a key give way to new ones after a second; those that have are left alone.
func TestAudit_M2_StrangersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &pipes{conns: make(chan net.Conn, 16), closed: make(chan struct{})}
		l := New(in, Limits{All: 4, Strangers: 2, Grace: time.Second})
		accepted := make(chan net.Conn, 16)
		ended := make(chan error, 1)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- c
			}
		}()
		clients := make([]net.Conn, 4)
		clients[0] = in.dial()
		Known(Context(context.Background(), <-accepted))
		for i := 1; i < 4; i++ {
			clients[i] = in.dial()
		}
		synctest.Wait()
		if s := l.Stats(); s != (Stats{Open: 3, Strangers: 2}) {
			t.Errorf("%+v", s)
		}
		began := time.Now()
		<-accepted
		<-accepted
		<-accepted
		if took := time.Since(began); took != time.Second {
			t.Errorf("the third stranger came in after %s", took)
		}
		if _, err := clients[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the first stranger: %v", err)
		}
		if s := l.Stats(); s != (Stats{Open: 3, Strangers: 2, Closed: 1}) {
			t.Errorf("%+v", s)
		}
		in.dial() // waits
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener ended with %v", err)
		}
	})
}
