// Package redistest runs real Redis servers for a test, from the machine's own binary.
package redistest

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// Server is one server, with its data in a folder of the test.
type Server struct {
	t    testing.TB
	args []string
	dir  string
	port int

	running *exec.Cmd
}

// New starts a server on a free port with arguments of redis-server, and stops it when
// the test ends. Without a binary the test is skipped, or fails if the environment has
// CI=true.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, append([]string{"--save", ""}, args...)...)
}

func start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		testkit.Missing(t, "Redis", err)
	}
	s := &Server{t: t, args: args, dir: t.TempDir(), port: testkit.Port(t)}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// Port is the server's port, on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Addr is the server's address.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL names the server.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Dir is the folder of the server's data.
func (s *Server) Dir() string { return s.dir }

// Pid is the id of the process of a running server.
func (s *Server) Pid() int { return s.running.Process.Pid }

// Start starts the server, and waits until it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	args := append(s.args[:len(s.args):len(s.args)], "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log"))
	s.running = exec.Command("redis-server", args...)
	if err := s.running.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s.answers() {
			return
		}
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.t.Fatalf("redis-server does not accept connections:\n%s", log)
}

// answers reports whether the server has loaded its data, and answers.
func (s *Server) answers() bool {
	c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_, _ = c.Write([]byte("PING\r\n"))
	answer := make([]byte, 5)
	_, err = io.ReadFull(c, answer)
	return err == nil && string(answer) == "+PONG"
}

// Stop ends the server at once, as if it had crashed. Its data on disk stay.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	_ = s.running.Process.Kill()
	_ = s.running.Wait()
	s.running = nil
}

// Do runs a command by redis-cli, and returns its output.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(s.port)}, args...)...).CombinedOutput()
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
