package process

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

// Files change, and the gateway has it in force when it sees that, or is told: tenants' own tests have each way to change them.
func TestReload_Asked(t *testing.T) {
	s := newSite(t, func(s *site) {
		s.write("far/c.yaml", policyOf("coral", 1)) // a folder that nobody follows, as one without events
		s.must(os.MkdirAll(s.path("tenants"), 0o755))
		s.must(os.Symlink(s.path("far/c.yaml"), s.path("tenants/c.yaml")))
	})
	printed := s.Output()
	s.write("tenants/a.yaml", policyOf("acme", 2))
	s.wants("acme:2 coral:1")
	s.write("far/c.yaml", policyOf("coral", 2))
	s.Signal(s.T, syscall.SIGHUP)
	s.wants("acme:2 coral:2")
	s.write("far/c.yaml", policyOf("coral", 3))
	var done adminapi.Reloaded
	status := s.ask(http.MethodPost, "/api/v1/reload", &done)
	if got := s.inForce(); status != 200 || !done.Changed || done.Tenants != 2 || got != "acme:2 coral:3" {
		s.Errorf("%d %+v, and in force is %q", status, done, got)
	}
	if status := s.ask(http.MethodPost, "/api/v1/reload", &done); status != 200 || done.Changed || done.PolicyHash != s.policy().Hash {
		s.Errorf("without a change: %d %+v", status, done)
	}
	s.logged("policy in force", 3)
	if len(s.logged("SIGHUP: the files were read again", 1)) != 1 || len(s.logged("audit", 2)) != 2 {
		t.Errorf("the log does not tell who asked:\n%s", s.Log())
	}
	if got := s.metrics("llmgov_policy_revision_info"); got != fmt.Sprintf("llmgov_policy_revision_info{hash=%q} 1", s.policy().Hash) {
		t.Error(got)
	}
	if got := s.Output(); got != printed {
		t.Errorf("it printed %q, and later %q", printed, got)
	}
}

// Bad files change nothing, and say so once, everywhere; mended ones are in force.
func TestReload_Bad(t *testing.T) {
	s := newSite(t, nil)
	had := s.policy()
	if !had.Success || had.LoadedAt.IsZero() || had.LastErrorAt != nil || len(had.Problems)+len(had.NeedsRestart) != 0 {
		t.Errorf("at the start: %+v", had)
	}
	s.write("tenants/a.yaml", "tenants:\n  acme: {rmp: 1}\n")
	var refused adminapi.ProblemList
	for range 3 {
		if status := s.ask(http.MethodPost, "/api/v1/reload", &refused); status != http.StatusUnprocessableEntity {
			t.Errorf("status %d", status)
		}
	}
	got := s.policy()
	place := adminapi.Problem{File: filepath.ToSlash(s.path("tenants/a.yaml")), Line: 2, Column: 10}
	for _, list := range [][]adminapi.Problem{got.Problems, refused.Problems} {
		if !slices.ContainsFunc(list, func(p adminapi.Problem) bool {
			hint := strings.Contains(p.Message, `"rmp"`)
			p.Message = ""
			return hint && p == place
		}) {
			t.Errorf("problems %+v, want one at %+v", list, place)
		}
	}
	if got.Success || got.Hash != had.Hash || got.LastErrorAt == nil || s.inForce() != "acme:1" {
		t.Errorf("the status is %+v, in force %s", got, s.inForce())
	}
	if text := s.metrics("llmgov_policy_reload_success"); text != "llmgov_policy_reload_success 0" {
		t.Error(text)
	}
	if lines := s.logged("invalid files", 1); len(lines) != 1 || !strings.Contains(lines[0], "a.yaml:2:10: ") {
		t.Errorf("logged: %q", lines)
	}

	s.write("tenants/a.yaml", policyOf("acme", 1))
	if status := s.ask(http.MethodPost, "/api/v1/reload", nil); status != 200 {
		t.Errorf("mended: %d", status)
	}
	if got := s.policy(); !got.Success || len(got.Problems) != 0 || got.LastErrorAt == nil || !got.LoadedAt.Equal(had.LoadedAt) {
		t.Errorf("mended: %+v", got)
	}
	if text := s.metrics("llmgov_policy_reload_success"); text != "llmgov_policy_reload_success 1" {
		t.Error(text)
	}
	if len(s.logged("policy in force", 1)) != 1 {
		t.Errorf("the log does not tell of the end:\n%s", s.Log())
	}
}

// What cannot change while it runs is named, and keeps nothing else from changing.
func TestReload_NeedsRestart(t *testing.T) {
	s := newSite(t, nil)
	s.write("llmgov.yaml", strings.Replace(siteConfig, `listen: "127.0.0.1:0"`, `listen: "127.0.0.1:1"`, 1)+"timezone: Europe/Berlin\n")
	s.write("tenants/a.yaml", policyOf("acme", 2))
	var done adminapi.Reloaded
	want := []string{"listen", "timezone"}
	if s.ask(http.MethodPost, "/api/v1/reload", &done); !slices.Equal(done.NeedsRestart, want) || s.inForce() != "acme:2" {
		t.Errorf("%+v, in force %s", done, s.inForce())
	}
	if got := s.policy().NeedsRestart; !slices.Equal(got, want) {
		t.Errorf("the snapshot names %q", got)
	}
	// The watch may take over the one file while the other is still to be written.
	processtest.Until(t, func() error {
		lines := s.logged("policy in force", 1)
		if all := strings.Join(lines, ""); len(lines) > 2 || !strings.Contains(all, `"needs_restart":["listen","timezone"]`) || strings.Count(all, `"tenants_changed":1`) != 1 {
			return fmt.Errorf("logged: %q", lines)
		}
		return nil
	})
	s.write("llmgov.yaml", siteConfig)
	if s.ask(http.MethodPost, "/api/v1/reload", &done); len(done.NeedsRestart) != 0 || done.NeedsRestart == nil {
		t.Errorf("put back: %+v", done)
	}
}

// Without files there is nothing to reload, which is said and ends nothing.
func TestReload_Quickstart(t *testing.T) {
	s := &site{T: t, Process: processtest.Quickstart(t)}
	had := s.policy()
	s.Signal(s.T, syscall.SIGHUP)
	var refused adminapi.ProblemList
	if status := s.ask(http.MethodPost, "/api/v1/reload", &refused); status != http.StatusConflict || len(refused.Problems) != 1 || !strings.Contains(refused.Problems[0].Message, "-c FILE") {
		t.Errorf("%d %+v", status, refused)
	}
	if lines := s.logged("SIGHUP: llmgov was started without a config file", 1); len(lines) != 1 {
		t.Errorf("SIGHUP is answered %d times", len(lines))
	}
	if got := s.policy(); !reflect.DeepEqual(got, had) || !got.Success {
		t.Errorf("%+v, before %+v", got, had)
	}
}

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
