package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// target is a server under test: a child process, and a client to reach it.
type target struct {
	name string
	url  string
	// secure is the same with TLS, if it is a proxy.
	secure string
	// admission is the address of the listener for reservations, if it has one.
	admission string
	client    *http.Client

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	answer *json.Decoder
}

// The children, in the order in which they are measured.
const (
	direct = iota
	bare
	governed
	numTargets
)

var roles = [numTargets]string{"direct", "ReverseProxy", "llmgov"}

// hello is what a child says first.
type hello struct {
	URL       string `json:"url"`
	Secure    string `json:"secure,omitempty"`    // the same with TLS
	Admission string `json:"admission,omitempty"` // an address; "" if there is no such listener
}

// counters are what a child has used up since it started.
type counters struct {
	CPU    time.Duration `json:"cpu"`    // user + system
	Allocs uint64        `json:"allocs"` // heap objects
	Bytes  uint64        `json:"bytes"`  // heap bytes
}

func (c counters) plus(d counters) counters {
	return counters{c.CPU + d.CPU, c.Allocs + d.Allocs, c.Bytes + d.Bytes}
}

func (c counters) minus(d counters) counters {
	return counters{c.CPU - d.CPU, c.Allocs - d.Allocs, c.Bytes - d.Bytes}
}

// startAll starts the children. The function it returns ends them.
func startAll(ctx context.Context, o options) ([]*target, func() error, error) {
	var targets []*target
	closeAll := func() error {
		var errs []error
		for _, t := range targets {
			errs = append(errs, t.close())
		}
		return errors.Join(errs...)
	}
	for i, role := range roles {
		args := []string{"-role", role}
		if i == direct && o.tls != "" {
			args = append(args, "-tls", o.tls, fmt.Sprintf("-http2=%t", o.http2))
		}
		if i != direct {
			args = append(args, "-upstream", targets[direct].url)
		}
		if i == governed {
			args = append(args, "-store", o.store, "-cpuprofile", o.cpuProfile, "-memprofile", o.memProfile, "-mutexprofile", o.mutexProfile)
		}
		t, err := start(ctx, role, args, o.tls)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		targets = append(targets, t)
	}
	return targets, closeAll, nil
}

// start starts a child. It trusts the certificates in a file, if one is named.
func start(ctx context.Context, name string, args []string, trusted string) (*target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	if trusted != "" {
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+trusted)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &target{name: name, cmd: cmd, stdin: stdin, answer: json.NewDecoder(stdout), client: newClient()}
	var h hello
	if err := t.answer.Decode(&h); err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start: %w", name, err), t.close())
	}
	t.url = h.URL
	t.secure = h.Secure
	t.admission = h.Admission
	return t, nil
}

func newClient() *http.Client {
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: maxConnections,
			DisableCompression:  true,
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // of this machine
		},
	}
}

// The questions to a child, a line each.
const (
	askCounters = "counters"
	askHolding  = "holding"
)

// counters asks the child.
func (t *target) counters() (c counters, err error) { return c, t.ask(askCounters, &c) }

func (t *target) ask(question string, answer any) error {
	_, err := io.WriteString(t.stdin, question+"\n")
	if err == nil {
		err = t.answer.Decode(answer)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// close ends the child: it lives as long as its standard input.
func (t *target) close() error {
	t.client.CloseIdleConnections()
	_ = t.stdin.Close()
	if err := t.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}
