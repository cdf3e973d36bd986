package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The cores of a machine that has four of them. The load has the first two.
const (
	serverCore  = "2" // the model server, stores and rate limit services
	gatewayCore = "3"
	fewestCores = 4
)

// process is a program that runs on one core.
type process struct {
	name    string
	cmd     *exec.Cmd
	log     *os.File
	ended   chan struct{} // closed when it has
	addr    string        // where it listens
	started time.Time
}

// command is a program to start.
type command struct {
	name string
	core string
	dir  string
	addr string // it has started when something listens there
	env  []string
	args []string // the program first
}

// start runs a program on its core until ctx ends or it is stopped. Its output is in a file of its folder.
func start(ctx context.Context, c command) (*process, error) {
	args := c.args
	if runtime.NumCPU() >= fewestCores {
		args = append([]string{"taskset", "-c", c.core}, args...)
	}
	log, err := os.Create(filepath.Join(c.dir, c.name+".log"))
	if err != nil {
		return nil, err
	}
	p := &process{name: c.name, log: log, ended: make(chan struct{}), addr: c.addr, started: time.Now()}
	p.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	p.cmd.Dir = c.dir
	p.cmd.Env = append(os.Environ(), c.env...)
	p.cmd.Stdout = log
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	if err := p.awaitListener(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

const longestStart = 2 * time.Minute

// awaitListener waits until somebody listens at the process's address.
func (p *process) awaitListener(ctx context.Context) error {
	for until := time.Now().Add(longestStart); time.Now().Before(until); {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended before it listened: %s", p.name, p.lastWords())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not listen at %s after %v: %s", p.name, p.addr, longestStart, p.lastWords())
}

// lastWords is the end of what the process wrote.
func (p *process) lastWords() string {
	text, _ := os.ReadFile(p.log.Name())
	return string(bytes.TrimSpace(text[max(0, len(text)-2000):]))
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = p.log.Close()
}

// ticks are those of utime and stime in /proc, a second: Linux has this number for all programs.
const ticks = 100

// cpu is the CPU time that the process has used so far, user and system.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(text))
}

// parseCPU adds up the fields 14 and 15 of a process's stat. The second field is a name in parentheses, which may have spaces.
func parseCPU(stat string) (time.Duration, error) {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	const user, system = 11, 12
	if end < 0 || len(fields) <= system {
		return 0, fmt.Errorf("not the stat of a process: %q", stat)
	}
	utime, err := strconv.ParseInt(fields[user], 10, 64)
	if err != nil {
		return 0, err
	}
	stime, err := strconv.ParseInt(fields[system], 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(utime+stime) * time.Second / ticks, nil
}

// resident is the memory of the process, in bytes.
func (p *process) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var total, pages int64
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		return 0, err
	}
	return pages * int64(os.Getpagesize()), nil
}

// freeAddr is an address of this machine on which nobody listens yet.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// keepToLoadCores leaves the cores of the servers to them.
func keepToLoadCores() error {
	if runtime.NumCPU() < fewestCores {
		return nil
	}
	runtime.GOMAXPROCS(2)
	out, err := exec.Command("taskset", "-a", "-c", "-p", "0,1", strconv.Itoa(syscall.Getpid())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("taskset: %w: %s", err, out)
	}
	return nil
}
