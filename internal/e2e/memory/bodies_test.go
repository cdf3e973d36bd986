package memory

import (
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/testkit"
)

const completion = `{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}`

var answered = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(completion), completion)

const promptBytes = 400_000

var prompt = `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("Once upon a time. ", promptBytes/18) + `"}]}`

// Prompts of 400 KB, which have all arrived and none of which is answered, hold at most twice their bytes, three times
// with garbage; and nothing once they are answered.
func TestLongPrompts(t *testing.T) {
	calls := testkit.Rounds(30, 100)
	for name, send := range map[string]func(*testing.T, net.Conn, string, string){"of known length": send, "chunked": sendChunked} {
		t.Run(name, func(t *testing.T) {
			names := []string{"acme", "bolt", "crux", "dyne"}
			up := newUpstream(t, calls)
			addr := newStack(t, up, nil, names...).Data.Listener.Addr().String()
			for _, name := range names { // whatever is made once
				c := connect(t, addr)
				send(t, c, name, sockets.Chat(""))
				answer(t, up.next(1), []net.Conn{c})
			}
			before := settled()
			var clients []net.Conn
			for i := range calls {
				c := connect(t, addr)
				send(t, c, names[i%len(names)], prompt)
				clients = append(clients, c)
			}
			there := up.next(calls)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			with := int(m.HeapAlloc+m.StackInuse) - before.bytes
			sent := calls * promptBytes
			live := before.since(holding{bytes: 2 * sent, goroutines: math.MaxInt}).bytes
			answer(t, there, clients)
			left := before.since(holding{bytes: sent / 20, goroutines: math.MaxInt}).bytes

			t.Logf("%.2f times the bytes, %.2f without garbage, %.3f afterwards", float64(with)/float64(sent), float64(live)/float64(sent), float64(left)/float64(sent))
			if live > 2*sent {
				t.Errorf("%d calls of %d bytes hold %d", calls, promptBytes, live)
			}
			if with > 3*sent && !testing.Short() { // how much garbage there is depends on the machine
				t.Errorf("%d calls of %d bytes hold %d with garbage", calls, promptBytes, with)
			}
			if left > sent/20 {
				t.Errorf("%d bytes are left of %d calls of %d bytes", left, calls, promptBytes)
			}
		})
	}
}

// answer answers calls, and ends their connections.
func answer(t *testing.T, upstreams, clients []net.Conn) {
	t.Helper()
	for _, u := range upstreams {
		_, _ = io.WriteString(u, answered)
	}
	for _, c := range clients {
		readUntil(t, c, "usage")
		_ = c.Close()
	}
	for _, u := range upstreams {
		_ = u.Close()
	}
}
