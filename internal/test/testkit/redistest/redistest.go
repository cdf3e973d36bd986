// Package redistest runs real Redis servers for a test, from the machine's own binary.
package redistest

import (
	"bufio"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Server is one server, with its data in a folder of the test.
type Server struct {
	testkit.Program
	t    testing.TB
	args []string
	dir  string
}

// New starts a server on a free port with arguments of redis-server, and stops it when
// the test ends. Without a binary the test is skipped, or fails if the environment has
// CI=true.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	// A replica is sent the data at once, and not after 5 s in which others might ask for them as well.
	return start(t, append([]string{"--save", "", "--repl-diskless-sync-delay", "0", "--databases", "64"}, args...)...)
}

func start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		testkit.Missing(t, "Redis", err)
	}
	s := &Server{t: t, args: args, dir: t.TempDir()}
	s.Program = testkit.Program{Command: s.command, Log: filepath.Join(s.dir, "log"), Quit: syscall.SIGKILL, Ready: s.ready}
	s.Run(t)
	return s
}

// Addr is the server's address.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.Port()) }

// URL names the server.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Dir is the folder of the server's data.
func (s *Server) Dir() string { return s.dir }

func (s *Server) command(port int) *exec.Cmd {
	args := append(s.args[:len(s.args):len(s.args)], "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.dir)
	return exec.Command("redis-server", args...)
}

// ready reports whether the server has loaded its data, and answers.
func (s *Server) ready(p *testkit.Program) bool {
	c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = c.Write([]byte("PING\r\nINFO server\r\n"))
	lines := bufio.NewScanner(c)
	if !lines.Scan() || lines.Text() != "+PONG" {
		return false
	}
	for lines.Scan() {
		if pid, found := strings.CutPrefix(lines.Text(), "process_id:"); found {
			return pid == strconv.Itoa(p.Pid())
		}
	}
	return false
}

// Do runs a command by redis-cli, and returns its output.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(s.Port())}, args...)...).CombinedOutput()
	if text := strings.TrimSpace(string(out)); err == nil && !strings.HasPrefix(text, "ERR") {
		return text
	}
	s.t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	return ""
}

// Eventually waits until a condition holds, for up to a minute.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Within(t, time.Minute, what, holds)
}

// Within waits until a condition holds, for as long as patience.
func Within(t testing.TB, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s: %s", patience, what)
		}
		time.Sleep(25 * time.Millisecond)
	}
}
