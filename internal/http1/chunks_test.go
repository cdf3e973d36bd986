package http1

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// A read returns all chunks that have come, and the end along with the last of them. It waits for no part of the next one, whether that has
// begun or not.
func TestChunksThatHaveCome(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, c := range map[string]struct {
		pieces []string
		want   []string
	}{
		"all at once":        {[]string{head + "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"}, []string{"abc EOF"}},
		"end behind them":    {[]string{head + "1\r\na\r\n2\r\nbc\r\n", "0\r\n\r\n"}, []string{"abc", " EOF"}},
		"half an end":        {[]string{head + "1\r\na\r\n2\r\nbc\r\n0\r\n", "\r\n"}, []string{"abc", " EOF"}},
		"half a chunk":       {[]string{head + "1\r\na\r\n2\r\nb", "c\r\n0\r\n\r\n"}, []string{"ab", "c EOF"}},
		"no line end":        {[]string{head + "1\r\na\r\n2\r\nbc", "\r\n0\r\n\r\n"}, []string{"abc", " EOF"}},
		"half a line end":    {[]string{head + "1\r\na\r\n2\r\nbc\r", "\n0\r\n\r\n"}, []string{"abc", " EOF"}},
		"half a size":        {[]string{head + "1\r\na\r\n0", "2\r\nbc\r\n0\r\n\r\n"}, []string{"a", "bc EOF"}},
		"a size":             {[]string{head + "1\r\na\r\n2\r\n", "bc\r\n0\r\n\r\n"}, []string{"a", "bc EOF"}},
		"an extension later": {[]string{head + "1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n"}, []string{"a", "bc EOF"}},
		"more than is asked": {[]string{head + "14\r\n0123456789abcdefghij\r\n0\r\n\r\n"}, []string{"0123456789abcdef", "ghij EOF"}},
		"as much as asked":   {[]string{head + "10\r\n0123456789abcdef\r\n0\r\n\r\n"}, []string{"0123456789abcdef EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan bool)
			defer close(read)
			h := serve(t, func(conn net.Conn, _ int64) {
				_ = readRequest(bufio.NewReader(conn))
				for _, piece := range c.pieces {
					_, _ = io.WriteString(conn, piece)
					<-read
				}
			})
			resp, err := h.transport(t).RoundTrip(get(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for i, want := range c.want {
				p := make([]byte, 16)
				n, err := resp.Body.Read(p)
				got := string(p[:n])
				if err != nil {
					got += " " + err.Error()
				}
				if got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if i == 0 && len(c.pieces) > 1 {
					read <- true
				}
			}
		})
	}
}

// A large buffer follows a read that has filled a small one, and a small one a read that brought less.
func TestSizesOfBuffers(t *testing.T) {
	next := make(chan bool)
	defer close(next)
	chunk := "1f40\r\n" + strings.Repeat("a", 8000) + "\r\n"
	h := serveTCP(t, func(conn net.Conn, _ int64) {
		_ = readRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, chunked)
		for range next {
			_, _ = io.WriteString(conn, chunk)
		}
	})
	x := begin(t, h.transport(t), t.Context())
	defer x.Close()
	read := func(n int, wantSize int) {
		t.Helper()
		_, err := io.ReadFull(waiting{x}, make([]byte, n))
		if got := x.conn.reader.Size(); err != nil || got != wantSize {
			t.Errorf("a buffer of %d bytes (%v), want %d", got, err, wantSize)
		}
	}
	next <- true
	read(4000, readerBuffer)
	read(4000, largeBuffer)
	next <- true
	read(100, readerBuffer)
}
