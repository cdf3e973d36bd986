package plain

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lib/cancel"
	"github.com/llmgov/llmgov/internal/lib/socket"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// inBubble runs a test in virtual time with one connection to a server.
func inBubble(t *testing.T, h http.HandlerFunc, test func(t *testing.T, s *Server, c *client)) {
	synctest.Test(t, func(t *testing.T) {
		conn, l := newPipe()
		set := settings(h)
		set.ReadHeaderTimeout = 10 * time.Second
		set.IdleTimeout = time.Minute
		s := New(set)
		done := make(chan error)
		go func() { done <- s.Serve(l) }()
		test(t, s, &client{t, conn, bufio.NewReader(conn)})
		_ = s.Close()
		_ = conn.Close()
		_ = l.Close()
		<-done
	})
}

// takeLong takes a second, in which the client of the request is watched.
func takeLong(r *http.Request) {
	_ = r.Context().Done()
	_, _ = io.Copy(io.Discard, r.Body)
	time.Sleep(time.Second)
}

// tellServer answers with whose the request is.
func tellServer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	write(w, servedBy(r))
}

// rests are what comes later of some requests.
var rests = map[string]string{
	"a byte": "ET / HTTP/1.1\r\nHost: gateway\r\n\r\n",
	"half":   "st: gateway\r\nContent-Length: 1\r\n\r\na",
}

// A connection goes to net/http with its first request that is not plain, however much of it has come, and stays there.
func TestOthersAreHandedOver(t *testing.T) {
	for name, raw := range map[string]string{
		"GET":     "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n",
		"chunks":  "POST / HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"long":    "POST / HTTP/1.1\r\nHost: gateway\r\nContent-Length: 1\r\nA: " + big[:5000] + "\r\n\r\na",
		"a byte":  "G",
		"half":    "POST / HTTP/1.1\r\nHo",
		"no body": "POST / HTTP/1.1\r\nHost: gateway\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tellServer, func(t *testing.T, _ *Server, c *client) {
				for range 2 {
					if a := c.ask("/", "a"); a.Body != "us" {
						t.Errorf("a plain request: %+v", a)
					}
				}
				var sent sync.WaitGroup
				defer sent.Wait()
				sent.Go(func() {
					c.send(raw)
					time.Sleep(time.Second) // so that it comes by itself
					c.send(rests[name])
				})
				if a := c.receive(); a.Body != "net/http" {
					t.Errorf("another request: %+v", a)
				}
				if a := c.ask("/", "a"); a.Body != "net/http" {
					t.Errorf("the one after it: %+v", a)
				}
			})
		})
	}
}

// What has been sent along with a request is the next one, whoever serves it, also when it came while the first one ran.
func TestRequestsInARow(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			takeLong(r)
		}
		echo(w, r)
	}
	inBubble(t, slow, func(t *testing.T, _ *Server, c *client) {
		go c.send(request("/slow", "a") + request("/", "b") + request("/slow", ""))
		for _, want := range []string{"POST ", "POST b", "POST "} {
			if a := c.receive(); a.Body != want {
				t.Errorf("%+v", a)
			}
		}
		go func() {
			c.send(request("/slow", "a"))
			time.Sleep(100 * time.Millisecond)
			c.send(request("/", "b"))
			c.send("GET / HTTP/1.1\r\nHost: gateway\r\n\r\n")
		}()
		for _, want := range []string{"POST ", "POST b", "GET "} {
			if a := c.receive(); a.Body != want {
				t.Errorf("%+v", a)
			}
		}
	})
}

// What came behind a request that goes to net/http, while the one before it ran, goes there too.
func TestRequestsInARow_HandedOver(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		takeLong(r)
		write(w, r.Method)
	}
	inBubble(t, slow, func(t *testing.T, _ *Server, c *client) {
		const get = "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"
		go func() {
			c.send(request("/", "a") + get)
			time.Sleep(100 * time.Millisecond)
			c.send(get)
		}()
		for _, want := range []string{"POST", "GET", "GET"} {
			if a := c.receive(); a.Body != want {
				t.Errorf("%+v", a)
			}
		}
	})
}

// A watch that begins when its request is already over does not wait for its client.
func TestWatchThatBeginsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		c := newConn(server, New(settings(nil)), nil)
		c.reader = bufio.NewReader(server)
		c.watch.expect(c.ctx)
		c.watch.noteListened()
		c.watch.noteCome()
		c.watch.mu.Lock()
		c.watch.over = true
		c.watch.mu.Unlock()
		_ = server.SetReadDeadline(time.Unix(1, 0))
		<-c.watch.ended
	})
}

// A request of which a watch has read the first byte ahead is plain still.
func TestRequestWhileWatched(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		takeLong(r)
		write(w, servedBy(r))
	}
	inBubble(t, slow, func(t *testing.T, _ *Server, c *client) {
		go func() {
			c.send(request("/", "a"))
			time.Sleep(100 * time.Millisecond)
			c.send(request("/", "b"))
		}()
		for range 2 {
			if a := c.receive(); a.Body != "us" {
				t.Errorf("%+v", a)
			}
		}
	})
}

// A request ends when its client goes, once that is watched; before and after the body was read, and over and over.
func TestClientGoes(t *testing.T) {
	began := make(chan struct{})
	ended := make(chan time.Time, 1)
	waits := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/" {
			return
		}
		began <- struct{}{}
		<-r.Context().Done()
		ended <- time.Now()
	}
	for _, after := range []time.Duration{0, time.Millisecond, time.Hour} {
		inBubble(t, waits, func(t *testing.T, _ *Server, c *client) {
			began = make(chan struct{})
			ended = make(chan time.Time, 1)
			for range 3 {
				if a := c.ask("/", "a"); a.Status != http.StatusOK {
					t.Errorf("%+v", a)
				}
			}
			c.send(request("/waits", "question"))
			<-began
			time.Sleep(after)
			gone := time.Now()
			_ = c.Close()
			if late := (<-ended).Sub(gone); late > watchAfter {
				t.Errorf("gone after %v, it is told after %v more", after, late)
			}
		})
	}
}

// A client is watched from when somebody listens for its going and all of its request has come, whichever is later.
func TestWatchIsForListeners(t *testing.T) {
	for name, listens := range map[string]func(r *http.Request){
		"before the body": func(r *http.Request) { _ = r.Context().Done(); _, _ = io.Copy(io.Discard, r.Body) },
		"after it":        func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"late":            func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); time.Sleep(time.Minute) },
		"by AfterFunc": func(r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			gone := make(chan struct{})
			cancel.AfterFunc(r.Context(), func() { close(gone) })
			<-gone
		},
	} {
		t.Run(name, func(t *testing.T) {
			var came chan struct{}
			inBubble(t, func(_ http.ResponseWriter, r *http.Request) {
				listens(r)
				<-r.Context().Done()
				close(came)
			}, func(t *testing.T, _ *Server, c *client) {
				came = make(chan struct{})
				raw := request("/", "ab")
				c.send(raw[:len(raw)-1])
				time.Sleep(time.Second)
				c.send("b")
				began := time.Now()
				_ = c.Close()
				<-came
				if took := time.Since(began); took%time.Minute != watchAfter {
					t.Errorf("it was noticed after %v", took)
				}
			})
		})
	}
}

// Nobody watches for a client for whose going nobody listens, also if somebody did during an earlier request.
func TestWatchIsForNobodyElse(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/listens" {
			takeLong(r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(time.Second)
		write(w, fmt.Sprint(r.Context().(*listened).watch.begun))
	}, func(t *testing.T, _ *Server, c *client) {
		c.ask("/listens", "a")
		if a := c.ask("/", "a"); a.Body != "false" {
			t.Errorf("watched: %+v", a)
		}
	})
}

// Who listens for the end of a request that is over begins no watch, which would read from the next one.
func TestListensTooLate(t *testing.T) {
	var over context.Context
	inBubble(t, func(w http.ResponseWriter, r *http.Request) { over = r.Context(); echo(w, r) }, func(t *testing.T, _ *Server, c *client) {
		c.ask("/", "a")
		synctest.Wait()
		<-over.Done()
		time.Sleep(time.Second)
		if over.(*listened).watch.begun {
			t.Error("it is watched")
		}
		if a := c.ask("/", "b"); a.Body != "POST b" {
			t.Errorf("%+v", a)
		}
	})
}

// The context of a request ends with it, as it does at net/http's server.
func TestContextEndsWithItsRequest(t *testing.T) {
	contexts := make(chan context.Context, 1)
	keeps := func(_ http.ResponseWriter, r *http.Request) { contexts <- r.Context() }
	c := dial(t, serving(t, keeps))
	c.ask("/", "a")
	ctx := <-contexts
	<-ctx.Done()
	if ctx.Value(http.LocalAddrContextKey) == nil || ctx.Value(http.ServerContextKey) == nil {
		t.Error("values are missing")
	}
}

// A connection on which nothing comes is closed: a new one by the time for a head, a used one by that of idle ones.
func TestIdleConnections(t *testing.T) {
	inBubble(t, echo, func(t *testing.T, _ *Server, c *client) {
		began := time.Now()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != 10*time.Second {
			t.Errorf("a new one: %v after %v", err, time.Since(began))
		}
	})
	inBubble(t, echo, func(t *testing.T, _ *Server, c *client) {
		time.Sleep(9 * time.Second)
		c.ask("/", "a")
		began := time.Now()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != time.Minute {
			t.Errorf("a used one: %v after %v", err, time.Since(began))
		}
	})
}

// A client that dawdles over its head is net/http's to lose patience with.
func TestSlowHead(t *testing.T) {
	inBubble(t, echo, func(t *testing.T, _ *Server, c *client) {
		c.send("POST / HT")
		began := time.Now()
		if _, err := io.Copy(io.Discard, c); err != nil || time.Since(began) > 11*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Shutdown closes idle connections, lets running requests end, says so in their answers, and waits for them.
func TestShutdown(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		takeLong(r)
	}
	inBubble(t, slow, func(t *testing.T, s *Server, c *client) {
		c.send(request("/", "a"))
		synctest.Wait()
		ctx, end := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer end()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is over: %v", err)
		}
		began := time.Now()
		done := make(chan error)
		go func() { done <- s.Shutdown(t.Context()) }()
		if a := c.receive(); a.Status != http.StatusOK || !a.Close {
			t.Errorf("%+v", a)
		}
		if err := <-done; err != nil || time.Since(began) < 500*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	begins := func(w http.ResponseWriter, r *http.Request) {
		flush(w)
		slow(w, r)
	}
	inBubble(t, begins, func(t *testing.T, s *Server, c *client) {
		go func() { _ = c.ask("/", "a") }()
		synctest.Wait()
		began := time.Now()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("one whose answer has begun: %v after %v", err, time.Since(began))
		}
	})
	inBubble(t, slow, func(t *testing.T, s *Server, c *client) {
		c.ask("/", "a")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("an idle connection: %v", err)
		}
	})
}

// The panic of a handler is logged, but for the one that is meant to abort.
func TestPanic(t *testing.T) {
	for why, want := range map[error]bool{errors.New("broken"): true, http.ErrAbortHandler: false} {
		var log strings.Builder
		set := settings(func(http.ResponseWriter, *http.Request) { panic(why) })
		set.ErrorLog.SetOutput(&log)
		s := New(set)
		if a := dial(t, servingBy(t, s)).ask("/", "a"); !a.Failed {
			t.Errorf("%+v", a)
		}
		_ = s.Close()
		if logged := strings.Contains(log.String(), "TestPanic"); logged != want {
			t.Errorf("%v: the log is %q", why, log.String())
		}
	}
}

// A connection that comes when the server has been closed is closed, too.
func TestAccept_Closed(t *testing.T) {
	s := New(settings(echo))
	_ = s.Close()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan error)
	go func() {
		_, err := (&plainly{Listener: l, of: s}).Accept()
		ended <- err
	}()
	c := testkit.Must(net.Dial("tcp", l.Addr().String()))(t)
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	_ = l.Close()
	<-ended
}

// A connection that nobody takes any more is closed.
func TestHanded_Closed(t *testing.T) {
	client, server := net.Pipe()
	h := newHanded(nil)
	_ = h.Close()
	New(settings(nil)).hand(&unread{Conn: server}, h)
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A short body that is not read is waited for, so that its client sees the answer and can go on with the connection.
func TestShortBodyThatIsNotRead(t *testing.T) {
	refuses := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	inBubble(t, refuses, func(t *testing.T, _ *Server, c *client) {
		for range 2 {
			raw := request("/", strings.Repeat(big, 2))
			go c.send(raw[:len(raw)-100])
			time.Sleep(time.Second)
			go c.send(raw[len(raw)-100:])
			if a := c.receive(); a.Status != http.StatusUnauthorized || a.Close {
				t.Errorf("%+v", a)
			}
		}
	})
}

// The time for heads and idle connections is not that of bodies.
func TestSlowBody(t *testing.T) {
	inBubble(t, echo, func(t *testing.T, _ *Server, c *client) {
		for range 2 {
			raw := request("/", "ab")
			c.send(raw[:len(raw)-1])
			time.Sleep(time.Hour)
			c.send("b")
			if a := c.receive(); a.Body != "POST ab" {
				t.Errorf("%+v", a)
			}
		}
	})
}

// A body that ends too early is no shorter body.
func TestBodyThatIsCutOff(t *testing.T) {
	errs := make(chan error, 1)
	c := dial(t, serving(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		errs <- err
	}))
	raw := request("/", "question")
	c.send(raw[:len(raw)-1])
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	if err := <-errs; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// What is left of a body when the answer begins is read by the server, and the handler gets an error for it, not an early end.
func TestBodyThatTheAnswerOvertakes(t *testing.T) {
	for name, read := range map[string]int{"none": 0, "half": 4} {
		h := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, read))
			flush(w)
			n, err := r.Body.Read(make([]byte, 1))
			write(w, fmt.Sprint(n, err))
		}
		for _, by := range []interface {
			Serve(net.Listener) error
			Shutdown(context.Context) error
			Close() error
		}{New(settings(h)), settings(h)} {
			c := dial(t, servingBy(t, by))
			if a := c.ask("/", "question"); a.Body != fmt.Sprint(0, http.ErrBodyReadAfterClose) {
				t.Errorf("%s was read, and then by %T: %+v", name, by, a)
			}
		}
	}
}

// Empty lines are skipped where net/http skips them, behind a body, and as many of them.
func TestEmptyLines(t *testing.T) {
	for _, empty := range []string{"\r\n", "\n", "\r", "\r\n\r\n", "\n\r\n\n", "\r\n\r\n\n", "\r\n\r\n\r\n"} {
		for _, before := range []string{"", request("/", "a")} {
			var statuses [2][]int
			for i, by := range []interface {
				Serve(net.Listener) error
				Shutdown(context.Context) error
				Close() error
			}{New(settings(echo)), settings(echo)} {
				c := dial(t, servingBy(t, by))
				c.send(before + empty + request("/", "b"))
				for {
					a := c.receive()
					if statuses[i] = append(statuses[i], a.Status); a.Failed || a.Body == "POST b" {
						break
					}
				}
			}
			if ours, theirs := statuses[0], statuses[1]; !slices.Equal(ours, theirs) {
				t.Errorf("%q behind %q is answered %v, and by net/http %v", empty, before, ours, theirs)
			}
		}
	}
}

// Who keeps the writer or the body of a request cannot reach into the next one.
func TestNothingAfterTheEnd(t *testing.T) {
	var kept http.ResponseWriter
	var read io.Reader
	c := dial(t, serving(t, func(w http.ResponseWriter, r *http.Request) {
		if kept != nil {
			_, late := kept.Write([]byte("evil"))
			_, early := read.Read(make([]byte, 1))
			write(w, fmt.Sprintf("%t %t %v", late != nil, early == http.ErrBodyReadAfterClose, http.NewResponseController(kept).Flush() != nil))
			return
		}
		kept = w
		read = r.Body
		write(w, "first")
	}))
	for _, want := range []string{"first", "true true true"} {
		if a := c.ask("/", "question"); a.Body != want {
			t.Errorf("%+v", a)
		}
	}
}

// Whatever headers the answer before had, those of an answer are its own, and in order.
func TestHeadersInARow(t *testing.T) {
	c := dial(t, serving(t, func(w http.ResponseWriter, r *http.Request) {
		names, _ := io.ReadAll(r.Body)
		for _, name := range strings.Fields(string(names)) {
			w.Header()[name] = []string{"0"}
		}
		w.WriteHeader(http.StatusOK)
	}))
	for _, names := range []string{
		"C B A", "A C B", "A B", "B D", "B D C", "B D Content-Length", "B D Connection", "B D E", "B D bad:name", "B D bad:name Trailer",
		"E bad:name", "E Trailer", "", "Content-Length", "A", "",
	} {
		c.send(request("/", names))
		var got []string
		for {
			line, _ := c.answers.ReadString('\n')
			name, _, ok := strings.Cut(line, ":")
			if !ok && !strings.HasPrefix(line, "HTTP/1.1 ") {
				break
			}
			if len(name) == 1 {
				got = append(got, name)
			}
		}
		var want []string
		for _, name := range strings.Fields(names) {
			if len(name) == 1 {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q", names, got)
		}
	}
}

// A client that reads nothing is broken off at the deadline of its handler, and its request ends.
func TestWriteDeadline(t *testing.T) {
	var errs chan error
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Second))
		_, err := io.WriteString(w, big)
		errs <- err
		errs <- r.Context().Err()
	}, func(t *testing.T, _ *Server, c *client) {
		errs = make(chan error, 2)
		c.send(request("/", "a"))
		if err := <-errs; err == nil {
			t.Error("it is written")
		}
		if err := <-errs; err == nil {
			t.Error("its request goes on")
		}
	})
}

// Behind a part that did not leave as a whole nothing leaves any more: it would be read as the rest of that.
func TestNothingBehindAGap(t *testing.T) {
	var errs chan error
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Now().Add(time.Second))
		write(w, big)
		errs <- control.Flush()
		_ = control.SetWriteDeadline(time.Time{})
		write(w, "evil")
		errs <- control.Flush()
	}, func(t *testing.T, _ *Server, c *client) {
		errs = make(chan error, 2)
		c.send(request("/", "a"))
		cut := make([]byte, 10)
		_, _ = io.ReadFull(c, cut)
		first := <-errs
		rest, _ := io.ReadAll(c)
		if second := <-errs; first == nil || second == nil || len(rest) > 0 {
			t.Errorf("%v, %v, and the client reads %q", first, second, rest)
		}
	})
}

// A handler is told the deadline that the connection has from an earlier request.
func TestWriteDeadline_IsKnown(t *testing.T) {
	set := time.Now().Add(time.Hour)
	c := dial(t, serving(t, func(w http.ResponseWriter, r *http.Request) {
		write(w, fmt.Sprint(w.(*response).WriteDeadline().Equal(set)))
		_ = http.NewResponseController(w).SetWriteDeadline(set)
	}))
	for _, want := range []string{"false", "true"} {
		if a := c.ask("/", ""); a.Body != want {
			t.Errorf("%+v, want %s", a, want)
		}
	}
}

// Of the deadline that a request has left net/http's server knows nothing, so it does not hold there.
func TestWriteDeadline_IsNotHandedOver(t *testing.T) {
	hurries := func(w http.ResponseWriter, r *http.Request) {
		if servedBy(r) == "us" {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Second))
		}
		tellServer(w, r)
	}
	inBubble(t, hurries, func(t *testing.T, _ *Server, c *client) {
		c.ask("/", "a")
		time.Sleep(2 * time.Second)
		c.send("GET / HTTP/1.1\r\nHost: gateway\r\n\r\n")
		if a := c.receive(); a.Body != "net/http" {
			t.Errorf("%+v", a)
		}
	})
}

// A deadline for reading is for a body that is still to come. One that is here is not waited for, so nothing is set.
func TestReadDeadline(t *testing.T) {
	whole := request("/", "12345")
	for _, c := range []struct {
		sent, body string
		late       bool
		set        int
	}{
		{sent: whole, body: "12345"},
		{sent: whole[:len(whole)-1], body: "1234", late: true, set: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			conn := &noting{Conn: theirs}
			l := newHanded(theirs.LocalAddr())
			go l.hand(conn)
			heard := make(chan string, 1)
			s := New(settings(func(w http.ResponseWriter, r *http.Request) {
				conn.set = 0
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
				body, err := io.ReadAll(r.Body)
				_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
				heard <- fmt.Sprint(string(body), errors.Is(err, os.ErrDeadlineExceeded), conn.set)
			}))
			done := make(chan error)
			go func() { done <- s.Serve(l) }()
			_, _ = io.WriteString(ours, c.sent)
			if got, want := <-heard, fmt.Sprint(c.body, c.late, c.set); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			_ = s.Close()
			_ = ours.Close()
			_ = l.Close()
			<-done
		})
	}
}

// noting counts the deadlines for reading.
type noting struct {
	net.Conn
	set int
}

// SetReadDeadline implements net.Conn.
func (n *noting) SetReadDeadline(t time.Time) error {
	n.set++
	return n.Conn.SetReadDeadline(t)
}

// A function for connections sees those that were accepted, whoever serves them.
func TestConnContext(t *testing.T) {
	type key struct{}
	set := settings(func(w http.ResponseWriter, r *http.Request) {
		_, accepted := r.Context().Value(key{}).(*net.TCPConn)
		write(w, fmt.Sprint(accepted))
	})
	set.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) }
	c := dial(t, servingBy(t, New(set)))
	for _, raw := range []string{request("/", ""), "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"} {
		c.send(raw)
		if a := c.receive(); a.Body != "true" {
			t.Errorf("%.4s: %+v", raw, a)
		}
	}
}

// remembered is a context that counts who is to know of its end.
type remembered struct {
	context.Context
	by *atomic.Int64
}

// AfterFunc is found by package cancel.
func (r remembered) AfterFunc(func()) func() bool {
	r.by.Add(1)
	return func() bool { return r.by.Add(-1) >= 0 }
}

// The context of the server forgets a connection that has ended.
func TestConnectionsAreForgotten(t *testing.T) {
	var by atomic.Int64
	set := settings(func(_ http.ResponseWriter, r *http.Request) { cancel.AfterFunc(r.Context(), func() {}) })
	set.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return remembered{ctx, &by} }
	s := New(set)
	address := servingBy(t, s)
	dial(t, address).ask("/", "a")
	if by.Load() != 1 {
		t.Errorf("remembered by %d", by.Load())
	}
	_ = s.Close()
	if by.Load() != 0 {
		t.Errorf("remembered by %d when all is over", by.Load())
	}
}

// counted counts the writes that do not go to the connection within.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

// Inner is found by the server.
func (c counted) Inner() net.Conn { return c.Conn }

// Write implements net.Conn.
func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// notSocket is a connection that does not show its socket.
type notSocket struct{ net.Conn }

// countedListener accepts counted connections.
type countedListener struct {
	net.Listener
	writes *atomic.Int64
}

// Accept implements net.Listener.
func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return counted{notSocket{c}, l.writes}, err
}

// A long piece of an answer goes to the connection within, where one system call is enough for the piece and what surrounds it. A chunk
// is copied between its two lines if it fits.
func TestPiecesLeaveAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		size    int
		chunked bool
		writes  int64 // of the connection
	}{
		"long chunk":  {len(big), true, 1}, // of the end
		"chunk":       {32 << 10, true, 2},
		"long answer": {30_000, false, 0},
		"answer":      {3_000, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
			var writes atomic.Int64
			s := New(settings(func(w http.ResponseWriter, _ *http.Request) {
				if !c.chunked {
					w.Header().Set("Content-Length", strconv.Itoa(c.size))
				}
				write(w, big[:c.size])
				flush(w)
			}))
			done := make(chan error)
			go func() { done <- s.Serve(countedListener{l, &writes}) }()
			if a := dial(t, l.Addr().String()).ask("/", "a"); a.Body != big[:c.size] {
				t.Errorf("%d bytes", len(a.Body))
			}
			_ = s.Close()
			<-done
			if writes.Load() != c.writes {
				t.Errorf("%d writes, want %d", writes.Load(), c.writes)
			}
		})
	}
}

// An answer holds a large output only while a long chunk waits in it, and none of another size.
func TestOutputsAreAsLargeAsNeeded(t *testing.T) {
	var held []int
	address := serving(t, func(rw http.ResponseWriter, _ *http.Request) {
		w := rw.(*response)
		look := func() {
			if w.out == nil {
				held = append(held, 0)
			} else {
				held = append(held, cap(w.out.bytes))
			}
		}
		w.WriteHeader(http.StatusOK)
		look()
		write(w, big[:mostHeld+1])
		look()
		write(w, big[:outputSize])
		look()
		write(w, "a")
		look()
		flush(w)
		look()
		for range 200 {
			write(w, big[:100])
		}
		look()
	})
	if a := dial(t, address).ask("/", "a"); len(a.Body) != mostHeld+1+outputSize+1+200*100 {
		t.Errorf("%d bytes", len(a.Body))
	}
	if want := []int{outputSize, outputSize, largeOutput, outputSize, 0, outputSize}; !slices.Equal(held, want) {
		t.Errorf("outputs of %d, want %d", held, want)
	}
}

// nowhere is a connection that takes everything.
type nowhere struct{ net.Conn }

// Write implements net.Conn.
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// Outputs of both sizes are used again.
func TestOutputsAreUsedAgain(t *testing.T) {
	w := &response{of: &conn{socket: socket.New(nowhere{})}, status: http.StatusOK, begun: true, length: -1}
	text := []byte(big)
	allocs := testkit.Allocs(t, 100, func() {
		_ = w.body(text[:100])
		_ = w.body(text[:20_000])
		_ = w.FlushError()
	})
	if allocs > 0 {
		t.Errorf("%d allocations", allocs)
	}
}
