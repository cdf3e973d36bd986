package socket

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// connect returns the two ends of a connection by TCP.
func connect(t *testing.T) (here, there *net.TCPConn) {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	dialed := testkit.Must(net.Dial("tcp", l.Addr().String()))(t)
	accepted := testkit.Must(l.Accept())(t)
	t.Cleanup(func() {
		_ = dialed.Close()
		_ = accepted.Close()
	})
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// counted is a connection that only counts another one.
type counted struct{ net.Conn }

// Inner is found by New.
func (c counted) Inner() net.Conn { return c.Conn }

var (
	address = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	long    = bytes.Repeat([]byte("0123456789"), 1<<20)
)

// tell is what a read or a write returned.
func tell(n int, err error) string {
	return address.ReplaceAllString(fmt.Sprintf("%d, %T: %v", n, err, err), "ADDRESS")
}

// A Conn returns what the connection would.
func TestConn_LikeItsConnection(t *testing.T) {
	some := make([]byte, 10)
	read := func(c net.Conn) string { return tell(c.Read(some)) }
	write := func(c net.Conn) string { return tell(c.Write(long[:10])) }
	past := time.Unix(1, 0)
	for name, do := range map[string]func(c net.Conn, here, there *net.TCPConn) string{
		"a read":        func(c net.Conn, _, there *net.TCPConn) string { _, _ = there.Write(long[:5]); return read(c) },
		"one that ends": func(c net.Conn, _, there *net.TCPConn) string { _ = there.CloseWrite(); return read(c) + read(c) },
		"one that waits": func(c net.Conn, _, there *net.TCPConn) string {
			time.AfterFunc(20*time.Millisecond, func() { _, _ = there.Write(long[:5]) })
			return read(c)
		},
		"one of nothing":  func(c net.Conn, _, _ *net.TCPConn) string { return tell(c.Read(nil)) },
		"one after Close": func(c net.Conn, here, _ *net.TCPConn) string { _ = here.Close(); return read(c) },
		"one that Close ends": func(c net.Conn, here, _ *net.TCPConn) string {
			time.AfterFunc(20*time.Millisecond, func() { _ = here.Close() })
			return read(c)
		},
		"one that is too late": func(c net.Conn, here, _ *net.TCPConn) string { _ = here.SetReadDeadline(past); return read(c) },
		"one of a reset":       func(c net.Conn, _, there *net.TCPConn) string { reset(there); return read(c) },
		"a write": func(c net.Conn, _, there *net.TCPConn) string {
			return write(c) + tell(io.ReadFull(there, some)) + string(some)
		},
		"a write of nothing":  func(c net.Conn, _, _ *net.TCPConn) string { return tell(c.Write(nil)) },
		"a write after Close": func(c net.Conn, here, _ *net.TCPConn) string { _ = here.Close(); return write(c) },
		"a write of a reset": func(c net.Conn, _, there *net.TCPConn) string {
			reset(there)
			time.Sleep(20 * time.Millisecond)
			return write(c) + write(c)
		},
		"a write of the end":   func(c net.Conn, here, _ *net.TCPConn) string { _ = here.CloseWrite(); return write(c) },
		"one of them too late": func(c net.Conn, here, _ *net.TCPConn) string { _ = here.SetWriteDeadline(past); return write(c) },
		"a long one too late": func(c net.Conn, here, _ *net.TCPConn) string {
			_ = here.SetWriteDeadline(past)
			return tell(c.Write(long))
		},
		"several buffers": func(c net.Conn, _, there *net.TCPConn) string {
			return several(c) + tell(io.ReadFull(there, some)) + string(some)
		},
		"several after a reset": func(c net.Conn, _, there *net.TCPConn) string {
			reset(there)
			time.Sleep(20 * time.Millisecond)
			return several(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := connect(t)
			want := do(here, here, there)
			here, there = connect(t)
			if got := do(New(counted{here}), here, there); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

func several(c net.Conn) string {
	parts := net.Buffers{long[:5], long[5:10]}
	if all, is := c.(interface {
		WriteAll(*net.Buffers) (int64, error)
	}); is {
		n, err := all.WriteAll(&parts)
		return tell(int(n), err)
	}
	n, err := parts.WriteTo(c)
	return tell(int(n), err)
}

// reset closes a connection so that the other side learns of it as an error.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// Bytes arrive as they were written in both directions at once, however often writes have to wait.
func TestConn_Carries(t *testing.T) {
	here, there := connect(t)
	_ = here.SetWriteBuffer(1)
	c := New(here)
	waited := 0
	c.OnWait = func() { waited++ }
	written := make(chan struct{})
	go func() {
		defer close(written)
		for at := 0; at < len(long); at += mostShort {
			piece := long[at:min(at+mostShort, len(long))]
			if n, err := c.Write(piece); n != len(piece) || err != nil {
				t.Errorf("%d of %d written: %v", n, len(piece), err)
			}
		}
	}()
	go func() { _, _ = there.Write(long) }()
	for name, from := range map[string]io.Reader{"there": there, "here": c} {
		got := make([]byte, len(long))
		for at := 0; at < len(got); {
			n, err := from.Read(got[at:min(at+mostShort, len(got))])
			if err != nil {
				t.Fatal(name, err)
			}
			at += n
		}
		if !bytes.Equal(got, long) {
			t.Errorf("%s: other bytes", name)
		}
	}
	if <-written; waited == 0 {
		t.Error("nothing has waited")
	}
}

// Who wants to know of waits hears of none if there is room.
func TestConn_OnWait(t *testing.T) {
	here, _ := connect(t)
	c := New(here)
	waits := 0
	c.OnWait = func() { waits++ }
	if n, err := c.Write(long[:1000]); n != 1000 || err != nil || waits != 0 {
		t.Errorf("%d, %v, %d waits", n, err, waits)
	}
	if n, err := c.WriteAll(&net.Buffers{long[:10]}); n != 10 || err != nil || waits != 1 {
		t.Errorf("%d, %v, %d waits of a write that is not known to have room", n, err, waits)
	}
	_ = here.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for range 10_000 {
		if _, err := c.Write(long[:mostShort]); err != nil {
			break
		}
	}
	if waits != 2 {
		t.Errorf("%d waits once the buffers are full", waits)
	}
}

// A pipe has no socket, and is used as it is.
func TestConn_WithoutSocket(t *testing.T) {
	here, there := net.Pipe()
	c := New(here)
	waited := false
	c.OnWait = func() { waited = true }
	go func() { _, _ = there.Write([]byte("ab")); _ = there.Close() }()
	all, err := io.ReadAll(c)
	if string(all) != "ab" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
	if _, err := c.Write([]byte("ab")); err != io.ErrClosedPipe || !waited {
		t.Errorf("%v, waited %v", err, waited)
	}
}

// A read of what has come does not wait, and makes nothing.
func TestConn_Allocates(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sockets are left to package net")
	}
	here, there := connect(t)
	c := New(here)
	p := make([]byte, 100)
	if n := testkit.Allocs(t, 100, func() {
		_, _ = there.Write(p)
		_, _ = c.Read(p)
		_, _ = c.Write(p)
		_, _ = there.Read(p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What happened before a write has happened for whoever reads it, also in the eyes of the race detector.
func TestConn_Orders(t *testing.T) {
	here, there := connect(t)
	for _, pair := range [][2]net.Conn{{New(here), there}, {there, New(here)}} {
		said := ""
		go func() {
			said = "yes"
			_, _ = pair[0].Write(long[:1])
		}()
		if _, err := pair[1].Read(make([]byte, 1)); err != nil || said != "yes" {
			t.Errorf("%v, %q", err, said)
		}
	}
}
