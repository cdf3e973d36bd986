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

// Whatever comes and goes, the bounds hold. Strangers give way that have had their time, those that came first first; of tenants, idle
// connections of one that has its part and most of those that have any. Connections with calls, and those of tokens, are left alone.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{All: 6, Tenants: 4, Strangers: 3, Grace: time.Second}
		tab := table{limits: limits}
		now := noon
		open := map[*Conn]string{} // whose, "?" of strangers
		order := []*Conn{}
		count := func(of string) (n int) {
			for _, who := range open {
				if who == of {
					n++
				}
			}
			return n
		}
		tenants := func() (n int) { return count("a") + count("b") + count("c") }
		part := func() int {
			n := 0
			for _, who := range []string{"a", "b", "c"} {
				n += min(count(who), 1)
			}
			return limits.Tenants / max(n, 1)
		}
		gone := func(c *Conn) {
			delete(open, c)
			for i := range order {
				if order[i] == c {
					order = append(order[:i:i], order[i+1:]...)
					return
				}
			}
		}
		idle := func(c *Conn) bool { return c.idle(now.Add(-time.Second)) }
		closed := func(c *Conn, for_ string) {
			who := open[c]
			switch {
			case !c.removed || who == "?" && now.Sub(c.since) < time.Second || who != "?" && !idle(c):
				t.Fatalf("one of %s was closed that has calls, or has not had its time", who)
			case who == "":
				t.Fatal("one of a token was closed")
			case who == "?":
				for _, other := range order {
					if open[other] == "?" && other != c {
						if !other.since.Before(c.since) {
							break
						}
						t.Fatal("an older stranger was left")
					}
				}
			default:
				mine := count(who)
				if who == for_ {
					mine++
				}
				if mine < part() {
					t.Fatalf("%s lost one of %d, and has a part of %d", who, mine, part())
				}
				for other, of := range open {
					if of != "?" && of != "" && of != who && idle(other) && count(of) > mine {
						t.Fatalf("%s lost one of %d, and %s has %d", who, mine, of, count(of))
					}
				}
			}
			gone(c)
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * time.Millisecond)
			what := rapid.IntRange(0, 8).Draw(t, "what")
			if len(order) == 0 {
				what = 0
			}
			var c *Conn
			if what > 2 {
				c = rapid.SampledFrom(order).Draw(t, "which")
			}
			switch what {
			case 0, 1, 2:
				c := &Conn{}
				ok, old, wait := tab.admit(c, now)
				full := len(open) == limits.All || count("?") >= limits.Strangers
				switch {
				case ok:
					open[c] = "?"
					order = append(order, c)
				case old != nil:
					closed(old, "")
				case !full || wait <= 0 || wait > time.Second:
					t.Fatalf("there is room, or it waits for %s", wait)
				case len(open) == limits.All:
					for c, who := range open {
						if who != "" && who != "?" && count(who) >= part() && idle(c) {
							t.Fatalf("it waits, and %s has an idle one", who)
						}
					}
				}
			case 3, 4, 5:
				who := rapid.SampledFrom([]string{"a", "a", "b", "c", ""}).Draw(t, "who")
				had := count(who)
				many := tenants() >= limits.Tenants
				before := part()
				ok, old := tab.know(c, who, now)
				if old != nil {
					if !many {
						t.Fatal("tenants have not too many")
					}
					closed(old, who)
				}
				switch {
				case ok && open[c] == "?":
					open[c] = who
				case !ok && (who == "" || !many || had < before):
					t.Fatalf("%s has %d and gets none, with a part of %d", who, had, before)
				}
			case 6:
				c.calls.Add(1)
			case 7:
				if c.calls.Load() > 0 {
					c.calls.Add(-1)
					c.ended.Store(now.UnixNano())
				}
			default:
				tab.remove(c)
				tab.remove(c)
				gone(c)
			}
			s := tab.stats()
			if s.Open != len(open) || s.Open > limits.All || s.Strangers != count("?") || s.Strangers > limits.Strangers || tab.known != tenants() {
				t.Fatalf("%+v, %d are known; there are %v", s, tab.known, open)
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
		Known(Context(context.Background(), <-accepted), "")
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
