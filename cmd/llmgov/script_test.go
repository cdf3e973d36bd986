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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
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
			"ended": cmdEnded,
			"get":   cmdGet,
			"curls": cmdCurls,
			"model": cmdModel,
			"call":  cmdCall,
			"mock":  cmdMock,
		},
	})
}

// exits CODE llmgov …: runs a command and checks its exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), processtest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	var out, errs bytes.Buffer
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(scriptEnv(ts), "PATH="+ts.Getenv("PATH"))
	cmd.Stdout = &out
	cmd.Stderr = &errs
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
	env := []string{"HOME=" + ts.Getenv("HOME")}
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "LLMGOV_LISTEN", "LLMGOV_ADMIN_LISTEN", "LLMGOV_KEYS_FILE", "LLMGOV_DECISION_LOG_PATH"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// processes are the running llmgovs, by script.
var processes sync.Map

func processOf(ts *testscript.TestScript) *processtest.Process {
	p, ok := processes.Load(ts)
	if !ok {
		ts.Fatalf("nothing was started")
	}
	return p.(*processtest.Process)
}

// launch starts llmgov in a folder, until the script ends.
func launch(ts *testscript.TestScript, dir string, args ...string) *processtest.Process {
	p, err := processtest.Command{Program: "llmgov", Dir: dir, Env: scriptEnv(ts), Args: args}.Launch()
	ts.Check(err)
	ts.Defer(p.Kill)
	return p
}

// start ARGS…: starts llmgov and waits until it listens; $DATA, $ADMIN and $ADMISSION
// say where.
func cmdStart(ts *testscript.TestScript, _ bool, args []string) {
	p := launch(ts, ts.Getenv("WORK"), args...)
	ts.Check(p.Listening())
	processes.Store(ts, p)
	ts.Setenv("DATA", p.Data)
	ts.Setenv("ADMIN", p.Admin)
	ts.Setenv("ADMISSION", p.Admission)
	ts.Setenv("DATA_ADDR", strings.TrimPrefix(p.Data, "http://"))
	ts.Setenv("ADMIN_ADDR", strings.TrimPrefix(p.Admin, "http://"))
}

// end SIGNAL: sends a signal, and waits until llmgov has ended with 0. (stop is a command
// of testscript itself, and ends the script.)
func cmdEnd(ts *testscript.TestScript, _ bool, args []string) {
	p := processOf(ts)
	sig := map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT}[args[0]]
	ts.Check(syscall.Kill(p.Pid(), sig))
	cmdEnded(ts, false, nil)
}

// ended: waits until llmgov has ended with 0.
func cmdEnded(ts *testscript.TestScript, _ bool, _ []string) {
	p := processOf(ts)
	code, err := p.Exit()
	ts.Check(err)
	if code != 0 {
		ts.Fatalf("exit code %d:\n%s", code, p.Log())
	}
}

var mockLine = regexp.MustCompile(`^The simulated model server listens on (http://\S+)/v1, `)

// mock ARGS…: starts the simulated model server; $MOCK says where it listens.
func cmdMock(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := os.MkdirTemp(ts.Getenv("WORK"), "mock")
	ts.Check(err)
	p := launch(ts, dir, append([]string{"mock", "--listen", "127.0.0.1:0"}, args...)...)
	ts.Check(processtest.Poll(func() error {
		m := mockLine.FindStringSubmatch(p.Output())
		if m == nil {
			return fmt.Errorf("no first line with the address: %q, %q", p.Output(), p.Log())
		}
		ts.Setenv("MOCK", m[1])
		return nil
	}))
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
	text := strings.ReplaceAll(p.Output(), "\\\n", " ")
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
