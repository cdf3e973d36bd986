package servers

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/engine"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

const (
	// slots is how many calls a server of the tests runs at once.
	slots = 8
	// contextTokens is how long a prompt and its answer may be together.
	contextTokens = 1024
	// startTime is the longest that a server may take until it is ready.
	startTime = 4 * time.Minute
)

// server is a program that serves models.
type server struct {
	name    string // in the table
	program string // the environment variable with the program
	model   string // the environment variable with the model
	command func(program, model string, port int) *exec.Cmd
	gauges  gauges
	engine  string             // its kind in the config, for its metrics
	refuses map[string]refusal // what it answers to wrong calls, by their names
}

// gauges are the names of a server's metrics.
type gauges struct {
	running   string
	waiting   string
	prompt    string
	cached    string // prompts found in its cache, if prompt leaves them out
	generated string
}

// refusal is an answer to a wrong call.
type refusal struct {
	status int
	kind   string // error.type of its body
}

// running is a server that runs.
type running struct {
	*server
	url     string // without /v1
	process *exec.Cmd
	ended   chan struct{} // closed when it has ended
}

// kill kills the server and its own processes, as a lack of memory does.
func (r *running) kill() {
	_ = syscall.Kill(-r.process.Process.Pid, syscall.SIGKILL)
	<-r.ended
}

// start runs the server until the test ends, or skips the test where it is not installed.
func (s *server) start(t *testing.T) *running {
	t.Helper()
	program := os.Getenv(s.program)
	if program == "" {
		testkit.Elsewhere(t, s.name, "test-servers")
	}
	port := testkit.Port(t)
	r := &running{
		server:  s,
		url:     fmt.Sprintf("http://127.0.0.1:%d", port),
		process: s.command(program, os.Getenv(s.model), port),
		ended:   make(chan struct{}),
	}
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := &bytes.Buffer{}
	r.process.Stdout = log
	r.process.Stderr = log
	testkit.OK(t, r.process.Start())
	go func() {
		_ = r.process.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.process.Process.Signal(os.Interrupt) // it ends its own children
		select {
		case <-r.ended:
		case <-time.After(20 * time.Second):
			r.kill()
		}
		if t.Failed() {
			t.Logf("%s: %s", s.name, log.Bytes()[max(0, log.Len()-4000):])
		}
	})
	r.waitUntilReady(t)
	return r
}

func (r *running) waitUntilReady(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(startTime); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		select {
		case <-r.ended:
			t.Fatalf("%s has ended", r.name)
		default:
		}
		resp, err := http.Get(r.url + "/health")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatalf("%s is not ready after %s", r.name, startTime)
}

// load is what a server says of itself.
type load struct {
	running   int
	waiting   int
	prompt    int64
	generated int64
}

// load reads the server's metrics.
func (r *running) load(t *testing.T) load {
	t.Helper()
	text := processtest.Ask(t, http.MethodGet, r.url+"/metrics", "", "").Body
	prompt := processtest.Sum(text, r.gauges.prompt)
	if r.gauges.cached != "" {
		prompt += processtest.Sum(text, r.gauges.cached)
	}
	said, err := engine.Read(strings.NewReader(text), engine.Kinds[r.engine])
	if err != nil || float64(said.Running) != processtest.Sum(text, r.gauges.running) || float64(said.Waiting) != processtest.Sum(text, r.gauges.waiting) {
		t.Errorf("%s: its load reads as %+v, %v", r.name, said, err)
	}
	return load{
		running:   int(processtest.Sum(text, r.gauges.running)),
		waiting:   int(processtest.Sum(text, r.gauges.waiting)),
		prompt:    int64(prompt),
		generated: int64(processtest.Sum(text, r.gauges.generated)),
	}
}
