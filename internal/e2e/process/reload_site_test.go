package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// site is a folder with a config and policies, and a gateway in a process of its own
// that follows them.
type site struct {
	*testing.T
	dir string
	*process
}

const siteConfig = "listen: \"127.0.0.1:0\"\nadmin: {listen: \"127.0.0.1:0\"}\n" +
	"upstreams: {u: {base_url: \"http://127.0.0.1:1/v1\"}}\npools: {p: {models: [m], rpm: 100000}}\n"

func policyOf(tenant string, rpm int) string {
	return fmt.Sprintf("tenants:\n  %s: {rpm: %d, keys: [%q]}\n", tenant, rpm, tenants.HashKey(tenant).String())
}

// newSite writes the files, and starts the gateway.
func newSite(t *testing.T, write func(s *site)) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir()}
	s.write("llmgov.yaml", siteConfig)
	s.write("tenants/a.yaml", policyOf("acme", 1))
	if write != nil {
		write(s)
	}
	var err error
	s.process, err = launch(t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, "serve", "-c", s.path("llmgov.yaml"))
	s.must(err)
	t.Cleanup(s.kill)
	s.must(s.listening())
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) write(name, text string) {
	s.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.must(os.WriteFile(s.path(name), []byte(text), 0o600))
}

func (s *site) rename(from, to string) { s.Helper(); s.must(os.Rename(s.path(from), s.path(to))) }

func (s *site) remove(name string) { s.Helper(); s.must(os.RemoveAll(s.path(name))) }

// admin reads an answer of the admin side.
func (s *site) ask(method, path string, into any) int {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.admin+path, nil)
	s.must(err)
	resp, err := http.DefaultClient.Do(req)
	s.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	s.must(err)
	if into != nil {
		if err := json.Unmarshal(body, into); err != nil {
			s.Fatalf("%s: %v: %s", path, err, body)
		}
	}
	return resp.StatusCode
}

// inForce are the tenants in force, as name:rpm.
func (s *site) inForce() string {
	s.Helper()
	var answer struct {
		Tenants []struct {
			Name   string
			Limits []struct{ Limit int64 }
		}
	}
	s.ask(http.MethodGet, "/api/v1/tenants", &answer)
	var out []string
	for _, t := range answer.Tenants {
		out = append(out, fmt.Sprintf("%s:%d", t.Name, t.Limits[0].Limit))
	}
	return strings.Join(out, " ")
}

// wants waits until these are the tenants in force.
func (s *site) wants(list string) {
	s.Helper()
	began := time.Now()
	got := ""
	for got = s.inForce(); got != list; got = s.inForce() {
		if time.Since(began) > patience {
			s.Fatalf("in force is %q, want %q:\n%s", got, list, read(s.stderr))
		}
		time.Sleep(5 * time.Millisecond) // of a poll with a deadline
	}
	s.Logf("in force after %v", time.Since(began).Round(time.Millisecond))
}

// policy is what the snapshot says of the policy.
func (s *site) policy() adminapi.PolicyStatus {
	s.Helper()
	var answer struct{ Policy adminapi.PolicyStatus }
	s.ask(http.MethodGet, "/api/v1/snapshot", &answer)
	return answer.Policy
}

// metrics reads the metrics whose names begin so.
func (s *site) metrics(prefix string) string {
	s.Helper()
	resp, err := http.Get(s.admin + "/metrics")
	s.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	s.must(err)
	var out []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "\n")
}

// logged are the lines of the log with this message, once there are at least so many: a line is in the log
// soon after it was logged.
func (s *site) logged(message string, least int) (lines []string) {
	s.must(poll(func() error {
		lines = nil
		for line := range strings.Lines(read(s.stderr)) {
			if strings.Contains(line, `"msg":"`+message) && strings.HasSuffix(line, "\n") {
				lines = append(lines, line)
			}
		}
		if len(lines) < least {
			return fmt.Errorf("%d lines with %q, not %d:\n%s", len(lines), message, least, read(s.stderr))
		}
		return nil
	}))
	return lines
}
