package process

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

// site is a folder with a config and policies, and a gateway in a process of its own
// that follows them.
type site struct {
	*testing.T
	dir string
	*processtest.Process
}

const siteConfig = anywhere +
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
	s.Process = processtest.Start(t, t.TempDir(), s.path("llmgov.yaml"))
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
	processtest.Write(s.T, s.dir, map[string]string{name: text})
}

func (s *site) rename(from, to string) { s.Helper(); s.must(os.Rename(s.path(from), s.path(to))) }

func (s *site) remove(name string) { s.Helper(); s.must(os.RemoveAll(s.path(name))) }

// ask reads an answer of the admin side.
func (s *site) ask(method, path string, into any) (status int) {
	s.Helper()
	answer := processtest.Ask(s.T, method, s.Admin+path, "", "")
	if into != nil {
		answer.Into(s.T, into)
	}
	return answer.Status
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
	processtest.Until(s.T, func() error {
		if got := s.inForce(); got != list {
			return fmt.Errorf("in force is %q, want %q", got, list)
		}
		return nil
	})
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
	var out []string
	for line := range strings.Lines(s.Scrape(s.T)) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "\n")
}

// logged are the lines of the log with this message, once there are at least so many: a line is in the log
// soon after it was logged.
func (s *site) logged(message string, least int) (lines []string) {
	processtest.Until(s.T, func() error {
		lines = nil
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, `"msg":"`+message) && strings.HasSuffix(line, "\n") {
				lines = append(lines, line)
			}
		}
		if len(lines) < least {
			return fmt.Errorf("%d lines with %q, not %d:\n%s", len(lines), message, least, s.Log())
		}
		return nil
	})
	return lines
}
