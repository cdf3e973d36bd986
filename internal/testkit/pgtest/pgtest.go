// Package pgtest runs a real PostgreSQL server for a test, from the machine's own
// binaries.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// Server is one server, with its data in a folder of the test.
type Server struct {
	t    testing.TB
	bin  string
	data string
	port int
	as   *syscall.SysProcAttr // because it refuses to run as root

	running *exec.Cmd
}

// New starts a server on a free port, and stops it when the test ends. Without binaries
// the test is skipped, or fails if the environment has CI=true.
func New(t testing.TB) *Server {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		testkit.Missing(t, "PostgreSQL", err)
	}
	s := &Server{t: t, bin: bin, data: filepath.Join(folder(t), "data"), port: testkit.Port(t)}
	s.as = s.someone(filepath.Dir(s.data))
	s.run("initdb", "-D", s.data, "-U", "llmgov", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// URL names a database of the server.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://llmgov@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Pid is the id of the main process of a running server.
func (s *Server) Pid() int { return s.running.Process.Pid }

// Start starts the server, and waits until it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	s.running = exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data, "-p", strconv.Itoa(s.port), "-k", "",
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "wal_level=replica", "-c", "max_wal_senders=2")
	s.running.SysProcAttr = s.as
	s.running.Dir = filepath.Dir(s.data)
	if err := s.running.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if exec.Command(filepath.Join(s.bin, "pg_isready"), "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)).Run() == nil {
			return
		}
	}
	s.t.Fatal("postgres does not accept connections")
}

// Stop ends the server at once, as if it had crashed. Its data stay.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	_ = s.running.Process.Signal(syscall.SIGQUIT)
	_ = s.running.Wait()
	s.running = nil
}

// Replica copies the server, and starts the copy as a standby.
func (s *Server) Replica() *Server {
	r := &Server{t: s.t, bin: s.bin, data: filepath.Join(folder(s.t), "data"), port: testkit.Port(s.t)}
	r.as = r.someone(filepath.Dir(r.data))
	r.run("pg_basebackup", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "llmgov", "-D", r.data, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
	s.t.Cleanup(r.Stop)
	r.Start()
	return r
}

// Promote makes a replica the primary.
func (s *Server) Promote() { s.run("pg_ctl", "promote", "-D", s.data, "-w") }

func (s *Server) run(name string, args ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	c.SysProcAttr = s.as
	c.Dir = filepath.Dir(s.data)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// someone is the user that runs the server and owns the folder: nobody, if this process is root.
func (s *Server) someone(folder string) *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		s.t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2, os.Chown(folder, uid, gid)); err != nil {
		s.t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// folder is a new folder that another user may enter.
func folder(t testing.TB) string {
	dir, err := os.MkdirTemp("", "llmgov-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// binaries is the folder of PostgreSQL's binaries: in the path, or Debian's.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL server on this machine; install one, as with apt-get install postgresql")
	}
	return found[len(found)-1], nil
}
