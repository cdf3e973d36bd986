// Package processtest runs llmgov as processes of its own, in front of simulated model servers, for tests of whole
// processes and of other programs beside them.
package processtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Patience is for what a process does at once on an idle machine: a busy one may take a hundred times as long.
const Patience = time.Minute

// Command is a program to start.
type Command struct {
	Program string   // its path; "" is llmgov of this source
	Dir     string   // its working folder, which also gets its output; "" is a new one, but Launch needs one
	Env     []string // beside PATH
	Args    []string
}

// Process is a program that was started.
type Process struct {
	Data      string // the address for tenants, once it listens: http://host:port
	Admin     string // the address of the admin side
	Admission string // the address of the admission API; "" if it has none
	Dir       string // its working folder

	cmd    *exec.Cmd
	output string // the file of its standard output
	log    string // the file of its standard error
	done   chan struct{}
}

// built is the folder of Binary, once it is there.
var built string

const source = "github.com/llmgov/llmgov/cmd/llmgov"

// Binary is the path of llmgov: of the environment's LLMGOV, which has to be absolute, or else built once.
var Binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("LLMGOV"); path != "" {
		_, err := os.Stat(path) // go test takes no result from its cache if a file has changed that a test looked at
		return path, err
	}
	dir, err := os.MkdirTemp("", "llmgov-test")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "llmgov")
	out, err := exec.Command("go", "build", "-o", path, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, lookAtSources()
})

// lookAtSources looks at all files that llmgov is built of, so that go test takes no result of another llmgov from its cache.
func lookAtSources() error {
	const files = `{{$dir := .Dir}}{{if not .Standard}}{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}{{end}}`
	list, err := exec.Command("go", "list", "-deps", "-f", files, source).Output()
	if err != nil {
		return err
	}
	for file := range strings.Lines(string(list)) {
		if file = strings.TrimSpace(file); file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return err
		}
	}
	return nil
}

// Main runs the tests of a package that starts processes, and takes away what was built for them.
func Main(m *testing.M) {
	if signal.Ignored(os.Interrupt) { // processes would inherit that from a shell that runs tests in the background
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// Launch starts a program in its folder, and does not wait.
func (c Command) Launch() (*Process, error) {
	if c.Program == "" {
		path, err := Binary()
		if err != nil {
			return nil, err
		}
		c.Program = path
	}
	p := &Process{
		Dir: c.Dir, cmd: exec.Command(c.Program, c.Args...), done: make(chan struct{}),
		output: filepath.Join(c.Dir, "stdout"), log: filepath.Join(c.Dir, "stderr"),
	}
	out, err := os.Create(p.output)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	p.cmd.Dir = c.Dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.Env...)
	if !testkit.LeanHTTP() {
		p.cmd.Env = append([]string{"LLMGOV_LEAN_HTTP=false"}, p.cmd.Env...)
	}
	p.cmd.Stdout = out
	p.cmd.Stderr = errs
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Start starts a program, until t ends.
func (c Command) Start(t testing.TB) *Process {
	t.Helper()
	p, err := c.start(t)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (c Command) start(t testing.TB) (*Process, error) {
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	p, err := c.Launch()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			text := p.Log()
			t.Logf("%s: %s", p, text[max(0, len(text)-4000):])
		}
	})
	return p, nil
}

// Serve starts a gateway, and waits until it listens.
func (c Command) Serve(t testing.TB) *Process {
	t.Helper()
	return ServeAll(t, c)[0]
}

// ServeAll starts gateways at once, and waits until all listen.
func ServeAll(t testing.TB, commands ...Command) []*Process {
	t.Helper()
	processes := make([]*Process, len(commands))
	failures := make([]error, len(commands))
	for i, c := range commands {
		processes[i], failures[i] = c.start(t)
	}
	for i, p := range processes {
		if failures[i] == nil {
			failures[i] = p.Listening()
		}
		if failures[i] != nil {
			t.Fatal(failures[i])
		}
	}
	return processes
}

// Start runs a gateway in a folder with a config file, until t ends.
func Start(t testing.TB, dir, config string, args ...string) *Process {
	t.Helper()
	return Command{Dir: dir, Args: append([]string{"serve", "-c", config}, args...)}.Serve(t)
}

// Quickstart runs a gateway without a config file, until t ends.
func Quickstart(t testing.TB, env ...string) *Process {
	t.Helper()
	return Command{Env: env, Args: []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}}.Serve(t)
}

// Key is a tenant's key that quickstart printed.
func (p *Process) Key(t testing.TB, tenant string) string {
	t.Helper()
	key := regexp.MustCompile(`llmg_` + tenant + `_[^\s"]+`).FindString(p.Output())
	if key == "" {
		t.Fatalf("no key of %s in %q", tenant, p.Output())
	}
	return key
}

var firstLine = regexp.MustCompile(`llmgov listens on (https?://\S+), admin on (https?://[^\s,]+)(?:, admission on (https?://\S+))?[ \n]`)

// Listening waits until a gateway says where it listens.
func (p *Process) Listening() error {
	return Poll(func() error {
		ended := p.Ended()
		m := firstLine.FindStringSubmatch(p.Output())
		if m == nil && ended {
			return fmt.Errorf("%w: %s ended with %d:\n%s", errInVain, p, p.cmd.ProcessState.ExitCode(), p.Log())
		}
		if m == nil {
			return fmt.Errorf("%s has no first line with both addresses: %q", p, p.Output())
		}
		p.Data = m[1]
		p.Admin = m[2]
		p.Admission = m[3]
		return nil
	})
}

// String is the line by which it was started.
func (p *Process) String() string { return strings.Join(p.cmd.Args, " ") }

// Pid is its process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output is what it has printed so far.
func (p *Process) Output() string { return read(p.output) }

// Log is what it has logged so far.
func (p *Process) Log() string { return read(p.log) }

// Ended reports whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill kills it, as a lack of memory does, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Exit waits for its end and returns its exit code.
func (p *Process) Exit() (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(Patience):
		p.Kill()
		return 0, fmt.Errorf("%s did not end within %s:\n%s", p, Patience, p.Log())
	}
}

// End sends a signal, and wants the process to end with a code.
func (p *Process) End(t testing.TB, s os.Signal, code int) {
	t.Helper()
	p.Signal(t, s)
	p.EndsWith(t, code)
}

// EndsWith waits for its end, and wants a code.
func (p *Process) EndsWith(t testing.TB, code int) {
	t.Helper()
	if got, err := p.Exit(); err != nil || got != code {
		t.Errorf("%s ended with %d, %v; want %d", p, got, err, code)
	}
}

// errInVain ends a poll, because nothing can come any more.
var errInVain = errors.New("in vain")

// Poll repeats f until it succeeds, or returns its last error when patience is over.
func Poll(f func() error) error {
	for end := time.Now().Add(Patience); ; {
		err := f()
		if err == nil || errors.Is(err, errInVain) || time.Now().After(end) {
			return err
		}
		time.Sleep(5 * time.Millisecond) // of a poll with a deadline
	}
}

// Until repeats f until it succeeds; otherwise its last error ends the test.
func Until(t testing.TB, f func() error) {
	t.Helper()
	if err := Poll(f); err != nil {
		t.Fatal(err)
	}
}

// Write writes files of a folder, by their names with slashes.
func Write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func read(file string) string {
	text, _ := os.ReadFile(file)
	return string(text)
}
