package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var mockLine = regexp.MustCompile(`^The simulated model server listens on (http://\S+)/v1, `)

// launchMock starts the simulated model server, and returns where it listens.
func launchMock(dir string, env []string, args ...string) (*process, string, error) {
	p, err := launch(dir, env, append([]string{"mock", "--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, "", err
	}
	url := ""
	err = poll(func() error {
		if m := mockLine.FindStringSubmatch(read(p.stdout)); m != nil {
			url = m[1]
			return nil
		}
		return fmt.Errorf("no first line with the address: %q, %q", read(p.stdout), read(p.stderr))
	})
	return p, url, err
}

// mock ARGS…: starts the simulated model server; $MOCK says where it listens.
func cmdMock(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := os.MkdirTemp(ts.Getenv("WORK"), "mock")
	ts.Check(err)
	p, url, err := launchMock(dir, scriptEnv(ts), args...)
	ts.Check(err)
	ts.Defer(p.kill)
	ts.Setenv("MOCK", url)
}

// Ctrl-C in the middle: no more calls, and a report of those that were made.
func TestLoad_Interrupted(t *testing.T) {
	path := []string{"PATH=" + os.Getenv("PATH")}
	m, url, err := launchMock(t.TempDir(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.kill)
	p, err := launch(t.TempDir(), path, "load", "--url", url, "--rate", "50", "--for", "1h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := poll(func() error {
		resp, err := http.Get(url + "/_stats")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var stats struct{ Completed int64 }
		if err := json.NewDecoder(resp.Body).Decode(&stats); err != nil || stats.Completed < 3 {
			return fmt.Errorf("%d calls: %w", stats.Completed, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code, err := p.exit(); code != 0 || err != nil {
		t.Errorf("exit code %d, %v: %s", code, err, read(p.stderr))
	}
	if out := read(p.stdout); !strings.Contains(out, "The run was cut short after ") || !regexp.MustCompile(`(?m)^all +\d+ +\d+ +[1-9]`).MatchString(out) {
		t.Errorf("the report is\n%s", out)
	}
}
