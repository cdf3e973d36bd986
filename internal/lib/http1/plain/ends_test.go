package plain

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serves are the functions of goroutines that are a server's.
var serves = []string{"plain.(*conn)", "plain.(*watch)", "plain.(*Server).Serve", "net/http.(*conn)", "net/http.(*connReader)", "net/http.(*http2"}

// running returns the stacks of a server's goroutines that are left when all of its bubble wait. Other servers of the process do not count.
func running() string {
	synctest.Wait()
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	var found []string
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if first, _, _ := strings.Cut(stack, "\n"); !strings.Contains(first, "synctest bubble") {
			continue
		}
		for _, f := range serves {
			if strings.Contains(stack, f) {
				found = append(found, stack)
				break
			}
		}
	}
	return strings.Join(found, "\n\n")
}

// ending are handlers that end in different ways.
func ending(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/waits":
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			<-r.Context().Done()
		}
	case "/unread":
	case "/hijacks":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	default:
		echo(w, r)
	}
}

const get = " HTTP/1.1\r\nHost: gateway\r\n\r\n"

// endless is a body in chunks that is longer than a server reads to no purpose.
var endless = "POST /unread HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("2710\r\n"+big[:10_000]+"\r\n", 60)

// states bring a connection into a state in which its server may end.
var states = map[string]struct {
	reach  func(c *client)
	closes time.Duration // within so long, although its client stays
	shuts  time.Duration // within so long, or a look of net/http later
}{
	"new":             {func(*client) {}, 0, 0},
	"idle":            {func(c *client) { c.ask("/", "a") }, 0, 0},
	"a byte":          {func(c *client) { c.send("P") }, 0, 0},
	"half a head":     {func(c *client) { c.send("POST / HT") }, 0, 6 * time.Second},
	"half a body":     {func(c *client) { c.send(strings.TrimSuffix(request("/waits", "ab"), "b")) }, 0, time.Hour},
	"active":          {func(c *client) { c.send(request("/waits", "a")) }, watchAfter, time.Hour},
	"watched":         {func(c *client) { c.send(request("/waits", "a")); time.Sleep(time.Second) }, 0, time.Hour},
	"lingering":       {func(c *client) { sending(c, mostDrained+10_000) }, 0, lingers},
	"handed, idle":    {func(c *client) { c.send("GET /" + get); c.receive() }, 0, 0},
	"handed, active":  {func(c *client) { c.send("GET /waits" + get) }, 0, time.Hour},
	"handed, lingers": {func(c *client) { go c.try(endless); c.receive() }, lingers, lingers},
	"hijacked":        {func(c *client) { c.send("GET /hijacks" + get); synctest.Wait() }, 0, 0},
	"HTTP/2": {func(c *client) {
		go func() { _, _ = io.Copy(io.Discard, c.Conn) }()
		c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	}, 0, time.Second},
}

// endsOf serves one connection in virtual time, and lets test end the server while the connection is in a state.
func endsOf(t *testing.T, state string, test func(t *testing.T, s *Server)) {
	synctest.Test(t, func(t *testing.T) {
		conn, l := newPipe()
		set := settings(ending)
		set.Protocols = &http.Protocols{}
		set.Protocols.SetHTTP1(true)
		set.Protocols.SetUnencryptedHTTP2(true)
		s := New(set)
		done := make(chan error)
		go func() { done <- s.Serve(l) }()
		states[state].reach(&client{t, conn, bufio.NewReader(conn)})
		synctest.Wait()
		test(t, s)
		_ = conn.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// When Close has returned, nothing of the server runs, whatever its connections did. A connection that a handler took is the handler's.
func TestClose_EndsEverything(t *testing.T) {
	for state, want := range states {
		t.Run(state, func(t *testing.T) {
			endsOf(t, state, func(t *testing.T, s *Server) {
				began := time.Now()
				_ = s.Close()
				if took := time.Since(began); took > want.closes {
					t.Errorf("it took %v", took)
				}
				if left := running(); left != "" && state != "hijacked" {
					t.Errorf("it left behind:\n%s", left)
				}
			})
		})
	}
}

// betweenLooks is the longest time for which net/http's Shutdown does not look at its connections.
const betweenLooks = 600 * time.Millisecond

// When Shutdown has returned without an error, nothing of the server runs.
func TestShutdown_EndsEverything(t *testing.T) {
	for state, want := range states {
		t.Run(state, func(t *testing.T) {
			endsOf(t, state, func(t *testing.T, s *Server) {
				ctx, end := context.WithTimeout(t.Context(), time.Minute)
				defer end()
				began := time.Now()
				err := s.Shutdown(ctx)
				if took := time.Since(began); took > want.shuts+betweenLooks {
					t.Errorf("it took %v", took)
				}
				if left := running(); left != "" && err == nil && state != "hijacked" {
					t.Errorf("it left behind:\n%s", left)
				}
				if goesOn := want.shuts > time.Minute; goesOn != errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				_ = s.Close()
			})
		})
	}
}

// Close does not wait for long for a handler that goes on without its client, and Shutdown does.
func TestClose_HandlerGoesOn(t *testing.T) {
	inBubble(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(time.Hour)
	}, func(t *testing.T, s *Server, c *client) {
		c.send(request("/", "a"))
		synctest.Wait()
		began := time.Now()
		if _ = s.Close(); time.Since(began) != endsWithin {
			t.Errorf("closed after %v", time.Since(began))
		}
		if err := s.Shutdown(t.Context()); err != nil || time.Since(began) != time.Hour {
			t.Errorf("shut down after %v: %v", time.Since(began), err)
		}
	})
}

// The watch of a client ends with a handler's panic, also when it was about to begin.
func TestWatchEndsWithAPanic(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second} {
		var watch *watch
		inBubble(t, func(_ http.ResponseWriter, r *http.Request) {
			_ = r.Context().Done()
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(after)
			watch = r.Context().(*listened).watch
			panic(http.ErrAbortHandler)
		}, func(t *testing.T, s *Server, c *client) {
			if a := c.ask("/", "a"); !a.Failed {
				t.Errorf("%+v", a)
			}
			_ = s.Close()
			time.Sleep(watchAfter)
			synctest.Wait()
			if len(watch.ended) > 0 {
				t.Errorf("after %v: it went on", after)
			}
		})
	}
}

// A client through TLS that stays does not keep a server.
func TestClose_TLS(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	config := certified.TLS
	certified.Close()
	synctest.Test(t, func(t *testing.T) {
		conn, l := newPipe()
		s := New(settings(ending))
		done := make(chan error)
		go func() { done <- s.Serve(tls.NewListener(l, config)) }()
		secret := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		c := &client{t, secret, bufio.NewReader(secret)}
		if a := c.ask("/", "a"); a.Body != "POST a" {
			t.Errorf("%+v", a)
		}
		go func() { _, _ = io.Copy(io.Discard, secret) }() // takes the server's goodbye
		_ = s.Close()
		if left := running(); left != "" {
			t.Errorf("it left behind:\n%s", left)
		}
		_ = conn.Close()
		<-done
	})
}

// sending sends a long body of which nothing is read, and reads the answer.
func sending(c *client, size int) {
	go c.try(request("/unread", strings.Repeat("a", size)))
	if a := c.receive(); a.Status != http.StatusOK || !a.Close {
		c.Errorf("%+v", a)
	}
}

// A connection lingers until its client goes, or for its time if the client stays, however much that sends.
func TestLingers(t *testing.T) {
	for name, want := range map[string]struct {
		size int
		goes bool
		took time.Duration
	}{
		"and the client goes":           {mostDrained + 10_000, true, 0},
		"and the client stays":          {mostDrained + 10_000, false, lingers},
		"and the client sends on":       {mostDrained + 2*mostLingered, false, lingers},
		"and the client sends and goes": {mostDrained + 2*mostLingered, true, lingers},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, s *Server, c *client) {
				sending(c, want.size)
				synctest.Wait()
				began := time.Now()
				if want.goes {
					_ = c.Close()
				}
				if err := s.Shutdown(t.Context()); err != nil || time.Since(began) != want.took {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// However much the client sends meanwhile, a bounded part of it is read.
func TestLingers_ReadsSoMuch(t *testing.T) {
	inBubble(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, _ *Server, c *client) {
		taken := make(chan int, 1)
		go func() { taken <- c.try(request("/", strings.Repeat("a", 3*mostLingered))) }()
		c.receive()
		if n := <-taken; n < mostLingered || n > mostLingered+mostDrained {
			t.Errorf("%d bytes were read", n)
		}
	})
}

// A closed server cuts short what lingers.
func TestLingers_UntilClose(t *testing.T) {
	for _, size := range []int{mostDrained + 10_000, mostDrained + 2*mostLingered} {
		inBubble(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, s *Server, c *client) {
			sending(c, size)
			synctest.Wait()
			began := time.Now()
			if _ = s.Close(); time.Since(began) != 0 {
				t.Errorf("closed after %v", time.Since(began))
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
}

// A client that ends its side early loses nothing of the answer, because what it sent is read before its socket is closed.
func TestLingers_HalfClosed(t *testing.T) {
	c := dial(t, serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		write(w, "no")
	}))
	c.send(request("/", strings.Repeat(big, 3))[:60_000]) // which sockets hold
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	if a := c.receive(); a.Status != http.StatusRequestEntityTooLarge || a.Body != "no" || !a.Close {
		t.Errorf("%+v", a)
	}
	if _, err := io.Copy(io.Discard, c.Conn); err != nil {
		t.Errorf("the connection broke: %v", err)
	}
}
