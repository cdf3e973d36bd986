package process

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

// The pod of docs/deploy/kubernetes.yaml: its limit of memory, and what Go is told of it.
const (
	podMemory   = 512 << 20
	podMemLimit = "GOMEMLIMIT=460MiB"
)

// attackers is how many tenants there are that attack. They have a concurrency of 2, as those of the
// manifest's free tier.
const attackers = 8

// attacked is a gateway in a process as the manifest has it, in front of a simulated provider.
func attacked(t *testing.T, more string) *processtest.Process {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		config:           more + anywhere + fmt.Sprintf("upstreams: {mock: {base_url: %q}}\npools: {main: {models: [\"*\"], concurrency: 1000}}\n", upstream(t)),
		"tenants/t.yaml": fmt.Sprintf("tiers: {free: {concurrency: 2, max_wait: 1s}}\ntenants:\n  other: {keys: [%q]}\n", tenants.HashKey("other-key")),
	}
	for i := range attackers {
		name := fmt.Sprint("attacker-", i)
		files["tenants/"+name+".yaml"] = fmt.Sprintf("tenants: {%s: {tier: free, keys: [%q]}}\n", name, tenants.HashKey(name))
	}
	processtest.Write(t, dir, files)
	return processtest.Command{Dir: dir, Env: []string{podMemLimit}, Args: []string{"serve", "-c", config}}.Serve(t)
}

// peak is the most memory that a process has had.
func peak(t *testing.T, p *processtest.Process) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Skip("the peak of a process's memory is read from /proc")
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib := testkit.Must(strconv.ParseInt(strings.Fields(value)[0], 10, 64))(t)
			return kib << 10
		}
	}
	t.Fatal("no peak in /proc")
	return 0
}

// attack opens connections and sends on each what is to be sent, then holds them for a while. Calls
// of another tenant must be answered all the while. It returns the peak of the memory.
func attack(t *testing.T, p *processtest.Process, connections int, hold time.Duration, send func(net.Conn)) int64 {
	t.Helper()
	addr := strings.TrimPrefix(p.Data, "http://")
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	for range connections {
		all.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			send(conn)
		})
	}
	served := 0
	for began := time.Now(); time.Since(began) < hold; served++ {
		if answer := p.Chat(t, "other-key"); answer.Status != http.StatusOK {
			t.Fatalf("another tenant's call %d gets %d %s", served, answer.Status, answer.Body)
		}
	}
	mu.Lock()
	for _, conn := range open {
		conn.Close()
	}
	mu.Unlock()
	all.Wait()
	if answer := p.Chat(t, "other-key"); answer.Status != http.StatusOK {
		t.Fatalf("afterwards another tenant's call gets %d %s", answer.Status, answer.Body)
	}
	most := peak(t, p)
	t.Logf("%d connections: %d MiB at the most, %d calls of another tenant answered", connections, most>>20, served)
	return most
}

// upload sends a body of 31 MiB, of which so many bytes never come, by its length or chunked, as so
// many tenants in turn.
func upload(missing int, chunked bool, tenants int64) func(net.Conn) {
	const size = 31 << 20
	var turn atomic.Int64
	return func(conn net.Conn) {
		head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer attacker-%d\r\n", turn.Add(1)%tenants)
		if chunked {
			head += "Transfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(size, 16) + "\r\n"
		} else {
			head += fmt.Sprintf("Content-Length: %d\r\n\r\n", size)
		}
		if _, err := io.WriteString(conn, head+`{"model":"m","messages":[{"role":"user","content":"`); err != nil {
			return
		}
		piece := bytes.Repeat([]byte("word "), 1<<16/5)
		for left := size - missing - 51; left > 0; left -= len(piece) {
			if _, err := conn.Write(piece[:min(left, len(piece))]); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	}
}

// noKey sends a request without a key, and reads no answer.
func noKey(conn net.Conn) {
	_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Pad: %s\r\nContent-Length: 100000\r\n\r\n{", strings.Repeat("x", 60<<10))
}

// noKeyHTTP2 opens as many streams of HTTP/2 as it can whose refusals cannot leave, because their
// windows are 0.
func noKeyHTTP2(conn net.Conn) {
	w := bufio.NewWriter(conn)
	_, _ = w.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame := func(kind, flags byte, stream uint32, payload []byte) {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		head = append(head, flags)
		_, _ = w.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
	}
	const settings, headers = 4, 1
	frame(settings, 0, 0, []byte{0, 4, 0, 0, 0, 0}) // INITIAL_WINDOW_SIZE 0
	literal := func(name, value string) []byte {
		b := append([]byte{0, byte(len(name))}, name...)
		return append(append(b, byte(len(value))), value...)
	}
	var block []byte
	block = append(block, literal(":method", "GET")...)
	block = append(block, literal(":scheme", "http")...)
	block = append(block, literal(":path", "/nowhere")...)
	block = append(block, literal(":authority", "x")...)
	for stream := uint32(1); stream < 500; stream += 2 {
		frame(headers, 5, stream, block) // END_STREAM, END_HEADERS
	}
	_ = w.Flush()
	_, _ = io.Copy(io.Discard, conn)
}

// HTTP/2 without TLS is spoken only if the config says so.
func TestAudit_M2_HTTP2IsOff(t *testing.T) {
	for env, want := range map[string]bool{"LLMGOV_H2C=false": false, "LLMGOV_H2C=true": true} {
		p := processtest.Quickstart(t, env)
		conn := testkit.Must(net.Dial("tcp", strings.TrimPrefix(p.Data, "http://")))(t)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(processtest.Patience))
		noSettings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
		_, _ = conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), noSettings...))
		head := make([]byte, 4)
		_, _ = io.ReadFull(conn, head)
		if spoken := head[3] == 4; spoken != want { // a frame of settings
			t.Errorf("%s: the server answers %q", env, head)
		}
	}
}

// The pod of the manifest lives through a tenant that sends bodies that never end, and clients
// without a key that hold on to all they can; and another tenant's calls are answered all the while.
func TestAudit_H5_MemoryUnderAttack(t *testing.T) {
	testkit.Long(t, "attacks eight processes for seconds")
	for _, c := range []struct {
		name        string
		config      string
		connections int
		send        func(net.Conn)
	}{
		{"bodies one byte short", "", 100, upload(1, false, 1)},
		{"chunked bodies one byte short", "", 100, upload(1, true, 1)},
		{"whole bodies", "", 100, upload(0, false, 1)},
		{"whole bodies of eight tenants", "", 100, upload(0, false, attackers)},
		{"chunked bodies of eight tenants", "", 100, upload(0, true, attackers)},
		{"no key, HTTP/1.1", "", 200, noKey},
		{"no key, HTTP/2", "h2c: true\n", 200, noKeyHTTP2},
		{"no key, HTTP/2, which is off", "", 200, noKeyHTTP2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := attacked(t, c.config)
			if peak := attack(t, p, c.connections, 3*time.Second, c.send); peak >= podMemory {
				t.Errorf("%d MiB of memory, the pod has %d", peak>>20, podMemory>>20)
			}
		})
	}
}
