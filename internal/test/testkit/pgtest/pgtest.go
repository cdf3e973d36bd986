// Package pgtest runs a real PostgreSQL server for a test, from the machine's own
// binaries.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Server is one server, with its data in a folder of the test.
type Server struct {
	testkit.Program
	t    testing.TB
	bin  string
	data string
	as   *syscall.SysProcAttr // because it refuses to run as root
}

// New starts a server on a free port, and stops it when the test ends. Without binaries
// the test is skipped, or fails if the environment has CI=true.
func New(t testing.TB) *Server {
	t.Helper()
	s := newServer(t, needed(t))
	s.run("initdb", "-D", s.data, "-U", "llmgov", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "--wal-segsize=1")
	s.Run(t)
	return s
}

var (
	life   testkit.Life
	shared = sync.OnceValue(func() *Server { return New(&life) })
)

// Main runs the tests of a package that uses Shared, and ends the process.
func Main(m *testing.M) { os.Exit(life.Main(m)) }

// Shared is a server that all tests of a package use, because to make one takes a second of CPU. No
// test stops it, or changes more of it than a schema of its own.
func Shared(t testing.TB) *Server {
	t.Helper()
	needed(t)
	return shared()
}

func newServer(t testing.TB, bin string) *Server {
	t.Helper()
	dir := folder(t)
	s := &Server{t: t, bin: bin, data: filepath.Join(dir, "data"), as: someone(t, dir)}
	s.Program = testkit.Program{Command: s.command, Log: filepath.Join(dir, "log"), Quit: syscall.SIGQUIT, Ready: s.ready}
	return s
}

// URL names a database of the server.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://llmgov@127.0.0.1:%d/postgres?sslmode=disable", s.Port())
}

func (s *Server) command(port int) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data, "-p", strconv.Itoa(port), "-k", "",
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=300")
	c.SysProcAttr = s.as
	c.Dir = filepath.Dir(s.data)
	return c
}

// ready reports whether the server accepts connections, by the file in which it says so.
func (s *Server) ready(p *testkit.Program) bool {
	text, _ := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	lines := bytes.Split(text, []byte("\n"))
	const state = 7
	return len(lines) > state && string(lines[0]) == strconv.Itoa(p.Pid()) && string(bytes.TrimSpace(lines[state])) == "ready"
}

// Replica stops the server, and starts a copy of it as a standby, which has all that was committed.
func (s *Server) Replica() *Server {
	s.t.Helper()
	s.Stop()
	r := newServer(s.t, s.bin)
	r.run("cp", "-R", s.data, r.data)
	r.run("touch", filepath.Join(r.data, "standby.signal"))
	r.Run(s.t)
	return r
}

// Promote makes a replica the primary.
func (s *Server) Promote() { s.run("pg_ctl", "promote", "-D", s.data, "-w") }

// run runs one of PostgreSQL's programs, or of the system's.
func (s *Server) run(name string, args ...string) {
	s.t.Helper()
	if path := filepath.Join(s.bin, name); exists(path) {
		name = path
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = s.as
	c.Dir = filepath.Dir(s.data)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// someone is the user that runs the server and owns the folder: nobody, if this process is root.
func someone(t testing.TB, folder string) *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2, os.Chown(folder, uid, gid)); err != nil {
		t.Fatal(err)
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

// needed is the folder of PostgreSQL's binaries. Without them t ends.
func needed(t testing.TB) string {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		testkit.Missing(t, "PostgreSQL", err)
	}
	return bin
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
