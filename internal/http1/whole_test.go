package http1

import (
	"io"
	"net"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// An answer is whole if its length is known, and all of it came in one piece with its head. Of one in chunks the end may
// be missing.
func TestWholeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []string
		whole  bool
	}{
		"at once":         {[]string{ok}, true},
		"more than it":    {[]string{ok + "!"}, true},
		"head alone":      {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"}, false},
		"half":            {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", "k"}, false},
		"chunked":         {[]string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"}, false},
		"until it closes": {[]string{"HTTP/1.1 200 OK\r\n\r\nok"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, func(conn net.Conn, _ int64) {
				_, _ = conn.Read(make([]byte, 4<<10))
				for _, piece := range c.pieces {
					_, _ = io.WriteString(conn, piece)
				}
			})
			resp := testkit.Must(h.transport(t).RoundTrip(get(t.Context())))(t)
			defer resp.Body.Close()
			if got := resp.Body.(*exchange).Whole(); got != c.whole {
				t.Errorf("whole: %v", got)
			}
			if text, _ := io.ReadAll(resp.Body); string(text) != "ok" {
				t.Errorf("%q", text)
			}
		})
	}
}
