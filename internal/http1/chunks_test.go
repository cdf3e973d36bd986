package http1

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
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
			resp := testkit.Must(h.transport(t).RoundTrip(get(t.Context())))(t)
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
