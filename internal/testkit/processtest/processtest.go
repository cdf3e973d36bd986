// Package processtest runs llmgov as a process of its own, for tests beside other programs.
package processtest

import (
	"bufio"
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
	"testing"
	"time"
)

// Process is a running llmgov.
type Process struct {
	Data  string // the address for tenants: http://host:port
	Admin string // the address of the admin side

	t   *testing.T
	cmd *exec.Cmd
	log string // the file that has its log
}

// built is the folder of binary, once it is there.
var built string

// binary is llmgov, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "llmgov-test")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "llmgov")
	out, err := exec.Command("go", "build", "-o", path, "github.com/llmgov/llmgov/cmd/llmgov").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// Main runs the tests of a package that starts processes, and takes away what was built for them.
func Main(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

var firstLine = regexp.MustCompile(`^llmgov listens on (http://\S+), admin on (http://[^\s,]+)`)

// Start runs llmgov in a folder with a config file, until the test ends.
func Start(t *testing.T, dir, config string) *Process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, cmd: exec.Command(path, "serve", "-c", config)}
	p.cmd.Dir = dir
	p.log = filepath.Join(t.TempDir(), "log")
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			text := p.Log()
			t.Logf("llmgov: %s", text[max(0, len(text)-4000):])
		}
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	m := firstLine.FindStringSubmatch(line)
	if m == nil {
		p.Kill()
		t.Fatalf("llmgov said %q, and %s", line, p.Log())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	p.Data = m[1]
	p.Admin = m[2]
	return p
}

// Kill kills llmgov, as a lack of memory does.
func (p *Process) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// Log is what it has logged so far.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	return string(text)
}

// Scrape reads its metrics.
func (p *Process) Scrape() string { return Get(p.t, p.Admin+"/metrics") }

// Get reads a page, or reports an error and returns "".
func Get(t *testing.T, url string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// Sum adds up the series of a metric that have all of these labels, each as `name="value"`.
func Sum(metrics, name string, labels ...string) (sum float64) {
	for line := range strings.Lines(metrics) {
		set, value, found := series(line, name)
		if !found {
			continue
		}
		fits := true
		for _, label := range labels {
			fits = fits && strings.Contains(set, label)
		}
		if fits {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			sum += n
		}
	}
	return sum
}

// series splits a line of a metric into its labels, if there are any, and its value.
func series(line, name string) (labels, value string, found bool) {
	rest, is := strings.CutPrefix(line, name)
	switch {
	case !is:
		return "", "", false
	case strings.HasPrefix(rest, "{"):
		return strings.Cut(rest[1:], "} ")
	case strings.HasPrefix(rest, " "):
		return "", rest[1:], true
	}
	return "", "", false
}
