package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// servedAddr is the environment variable with the address on which the test binary serves, in place of its tests.
const servedAddr = "LLMGOV_TESTKIT_SERVES"

func TestMain(m *testing.M) {
	addr := os.Getenv(servedAddr)
	if addr == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		fmt.Fprintln(c, os.Getpid())
		c.Close()
	}
}

// A program whose port is taken before it has it gets another one. Its port is its own over a restart, for which it waits until
// it is free.
func TestProgram_TakenPort(t *testing.T) {
	listen := func(port int) net.Listener {
		return Must(net.Listen("tcp", local(port)))(t)
	}
	pid := func(p *Program) (pid int) {
		c, err := net.Dial("tcp", local(p.Port()))
		if err != nil {
			return 0
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, _ = fmt.Fscan(c, &pid)
		return pid
	}
	starts := 0
	var taken net.Listener
	p := &Program{Log: filepath.Join(t.TempDir(), "log"), Quit: syscall.SIGKILL, Ready: func(p *Program) bool { return pid(p) == p.Pid() }}
	p.Command = func(port int) *exec.Cmd {
		starts++
		if starts == 1 || starts == 3 {
			taken = listen(port)
			t.Cleanup(func() { taken.Close() })
		}
		if starts == 4 {
			taken.Close()
		}
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), servedAddr+"="+local(port))
		return c
	}
	p.Run(t)
	port := p.Port()
	if starts != 2 || taken.Addr().String() == local(port) {
		t.Fatalf("it was started %d times, and is on port %d; %v is taken", starts, port, taken.Addr())
	}
	p.Stop()
	if pid(p) != 0 {
		t.Error("it answers after its end")
	}
	p.Start()
	if starts != 4 || p.Port() != port {
		t.Errorf("it was started %d times, and is on port %d instead of %d", starts, p.Port(), port)
	}
}

// A port is reserved until its test ends, although nothing listens on it.
func TestPort_StaysReserved(t *testing.T) {
	var port int
	t.Run("reserved", func(t *testing.T) {
		port = Port(t)
		if port < firstPort || port >= firstPort+ports {
			t.Errorf("port %d lies in the range from which systems take ports for others", port)
		}
		if reserve(t, port) {
			t.Errorf("port %d was given out twice", port)
		}
		server, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("no server can listen on the reserved port: %v", err)
		}
		server.Close()
	})
	if !reserve(t, port) {
		t.Errorf("port %d is reserved after its test", port)
	}
}

// A port on which something listens is not given out.
func TestPort_IsFree(t *testing.T) {
	l := Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; reserve(t, port) {
		t.Errorf("port %d is in use, and was given out", port)
	}
}
