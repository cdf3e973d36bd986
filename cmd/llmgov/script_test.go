package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The test binary is llmgov when it is called so: what runs in the tests is the
// real command, in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"llmgov": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "", // take over what commands print, to be read as a diff
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits,
			"start": cmdStart,
			"end":   cmdEnd,
			"get":   cmdGet,
			"curls": cmdCurls,
			"model": cmdModel,
			"call":  cmdCall,
			"mock":  cmdMock,
		},
	})
}

// patience is for what a process does at once on an idle machine: a busy one may take a hundred times as long.
const patience = time.Minute

// process is a running llmgov whose output goes to files.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr string // files
	done           chan struct{}
	data, admin    string // URLs, once it listens
	admission      string // likewise; "" if it has no such listener
}

// launch starts llmgov. Its output is in dir, as stdout and stderr.
func launch(dir string, env []string, args ...string) (*process, error) {
	return launchProgram("llmgov", dir, env, args...)
}

// launchProgram starts one release of llmgov.
func launchProgram(program, dir string, env []string, args ...string) (*process, error) {
	p := &process{
		cmd: exec.Command(program, args...), done: make(chan struct{}),
		stdout: filepath.Join(dir, "stdout"), stderr: filepath.Join(dir, "stderr"),
	}
	out, err := os.Create(p.stdout)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.Create(p.stderr)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	p.cmd.Dir = dir
	p.cmd.Env = env
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

var firstLine = regexp.MustCompile(`^llmgov listens on (http://\S+), admin on (http://[^\s,]+)(?:, admission on (http://\S+))?\n`)

// listening waits until llmgov says where it listens.
func (p *process) listening() error {
	return poll(func() error {
		select {
		case <-p.done:
			return fmt.Errorf("llmgov ended with %d:\n%s", p.cmd.ProcessState.ExitCode(), read(p.stderr))
		default:
		}
		m := firstLine.FindStringSubmatch(read(p.stdout))
		if m == nil {
			return fmt.Errorf("no first line with both addresses: %q", read(p.stdout))
		}
		p.data = m[1]
		p.admin = m[2]
		p.admission = m[3]
		return nil
	})
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit() (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
		return 0, fmt.Errorf("llmgov did not end within %s:\n%s", patience, read(p.stderr))
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// poll repeats f until it succeeds, or returns its last error.
func poll(f func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond) // of a poll with a deadline
	}
}

func read(file string) string {
	b, _ := os.ReadFile(file)
	return string(b)
}

// exits CODE llmgov …: runs a command and checks its exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = ts.Getenv("WORK"), scriptEnv(ts), &out, &errs
	_ = cmd.Run()
	ts.Check(os.WriteFile(ts.MkAbs("out"), out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), errs.Bytes(), 0o600))
	ts.Logf("%s%s", out.String(), errs.String())
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptEnv is the script's environment: what the script sets for llmgov.
func scriptEnv(ts *testscript.TestScript) []string {
	env := []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "LLMGOV_LISTEN", "LLMGOV_ADMIN_LISTEN", "LLMGOV_KEYS_FILE", "LLMGOV_DECISION_LOG_PATH"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// processes are the running llmgovs, by script.
var processes sync.Map

func processOf(ts *testscript.TestScript) *process {
	p, ok := processes.Load(ts)
	if !ok {
		ts.Fatalf("nothing was started")
	}
	return p.(*process)
}

// start ARGS…: starts llmgov and waits until it listens; $DATA, $ADMIN and $ADMISSION
// say where.
func cmdStart(ts *testscript.TestScript, _ bool, args []string) {
	p, err := launch(ts.Getenv("WORK"), scriptEnv(ts), args...)
	ts.Check(err)
	ts.Defer(p.kill)
	ts.Check(p.listening())
	processes.Store(ts, p)
	ts.Setenv("DATA", p.data)
	ts.Setenv("ADMIN", p.admin)
	ts.Setenv("ADMISSION", p.admission)
	ts.Setenv("DATA_ADDR", strings.TrimPrefix(p.data, "http://"))
	ts.Setenv("ADMIN_ADDR", strings.TrimPrefix(p.admin, "http://"))
}

// end SIGNAL: sends a signal, and waits until llmgov has ended with 0. (stop is a command
// of testscript itself, and ends the script.)
func cmdEnd(ts *testscript.TestScript, _ bool, args []string) {
	p := processOf(ts)
	sig := map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT}[args[0]]
	ts.Check(p.cmd.Process.Signal(sig))
	code, err := p.exit()
	ts.Check(err)
	if code != 0 {
		ts.Fatalf("exit code %d:\n%s", code, read(p.stderr))
	}
}

// get STATUS URL: the answer's body goes to the file body.
func cmdGet(ts *testscript.TestScript, _ bool, args []string) {
	resp, err := http.Get(args[1])
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("body"), body, 0o600))
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("status %d, want %s: %s", resp.StatusCode, args[0], body)
	}
}

// curls: runs each curl command that quickstart printed; their answers are the
// files curl1, curl2, …
func cmdCurls(ts *testscript.TestScript, _ bool, _ []string) {
	p := processOf(ts)
	text := strings.ReplaceAll(read(p.stdout), "\\\n", " ")
	n := 0
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		n++
		out, err := runCurl(line)
		if err != nil {
			ts.Fatalf("%s: %v\n%s", line, err, out)
		}
		ts.Check(os.WriteFile(ts.MkAbs("curl"+strconv.Itoa(n)), out, 0o600))
	}
	if n == 0 {
		ts.Fatalf("no curl command in %q", text)
	}
}

// runCurl runs a command line as a shell does, or, where there is no curl, does
// what it says.
func runCurl(line string) ([]byte, error) {
	if _, err := exec.LookPath("curl"); err == nil {
		return exec.Command("sh", "-c", line+" --fail-with-body --max-time 20").CombinedOutput()
	}
	m := regexp.MustCompile(`^curl -\S+ (\S+) -H "Authorization: ([^"]+)" .* -d '(.*)'$`).FindStringSubmatch(line)
	if m == nil {
		return nil, fmt.Errorf("cannot read the command")
	}
	req, err := http.NewRequest(http.MethodPost, m[1], strings.NewReader(m[3]))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", m[2])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return body, err
}

// quickstartKey is a key that quickstart printed.
func quickstartKey(t *testing.T, p *process, tenant string) string {
	t.Helper()
	m := regexp.MustCompile(`llmg_` + tenant + `_\S+`).FindString(read(p.stdout))
	if m == "" {
		t.Fatalf("no key of %s in %q", tenant, read(p.stdout))
	}
	return strings.TrimSuffix(m, `"`)
}

func startQuickstart(t *testing.T, env ...string) *process {
	t.Helper()
	p, err := launch(t.TempDir(), append(env, "PATH="+os.Getenv("PATH")), "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := p.listening(); err != nil {
		t.Fatal(err)
	}
	return p
}
