package testkit

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Program is a server that is a program of its own, and listens on a port of 127.0.0.1.
type Program struct {
	// Command is the command that serves on a port. It is called for each start.
	Command func(port int) *exec.Cmd
	// Log is the file that gets what the program prints.
	Log string
	// Quit is the signal that ends the process at once, as if it had crashed.
	Quit syscall.Signal
	// Ready reports whether the process accepts requests. It has to tell this process from another
	// one that has the port.
	Ready func(p *Program) bool

	t    testing.TB
	port int
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// Run starts the program on a free port, and waits until it is ready. It ends before t does.
func (p *Program) Run(t testing.TB) {
	t.Helper()
	p.t = t
	for range 10 {
		p.port = Port(t)
		t.Cleanup(p.Stop) // before the port is free for others
		if p.launch() {
			return
		}
	}
	t.Fatal("each of ten free ports was taken before the program had it")
}

// Port is the port on which the program listens, also while it is stopped.
func (p *Program) Port() int { return p.port }

// Pid is the id of the running process.
func (p *Program) Pid() int { return p.cmd.Process.Pid }

// Start starts the program again on its port, and waits until it is ready.
func (p *Program) Start() {
	p.t.Helper()
	for end := time.Now().Add(patience); !p.launch(); time.Sleep(poll) {
		if time.Now().After(end) {
			p.t.Fatalf("port %d is in use", p.port)
		}
	}
}

const (
	patience = time.Minute
	poll     = 5 * time.Millisecond
	inUse    = "address already in use"
)

// launch starts the process, and waits until it is ready. It returns false if another process has
// the port.
func (p *Program) launch() bool {
	p.t.Helper()
	log, err := os.Create(p.Log)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd := p.Command(p.port)
	cmd.Stdout = log
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }() // locals, because a later start sets the fields anew
	p.cmd, p.gone = cmd, gone
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if p.Ready(p) {
			return true
		}
		select {
		case <-gone:
			said, _ := os.ReadFile(p.Log)
			if !bytes.Contains(bytes.ToLower(said), []byte(inUse)) {
				p.t.Fatalf("%v ended at its start:\n%s", cmd, said)
			}
			return false
		case <-time.After(poll):
		}
	}
	said, _ := os.ReadFile(p.Log)
	p.t.Fatalf("%v is not ready:\n%s", cmd, said)
	return false
}

// Stop ends the process at once, and waits for its end. What it has on disk stays.
func (p *Program) Stop() {
	if p.gone == nil {
		return
	}
	_ = p.cmd.Process.Signal(p.Quit)
	<-p.gone
}
