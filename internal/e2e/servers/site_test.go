package servers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

// site is llmgov in front of a server.
type site struct {
	t      *testing.T
	server *running
	gov    *processtest.Process
	before load // of the server, when the site was made
}

func keyOf(tenant string) string { return "sk-" + tenant + "-0123456789abcdef" }

// newSite runs llmgov with one pool, given its limits, and tenants with weights.
func newSite(t *testing.T, r *running, pool string, weights map[string]int) *site {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	policy := "tenants:\n"
	for tenant, weight := range weights {
		policy += fmt.Sprintf("  %s: {keys: [%q], weight: %d, max_wait: 120s}\n", tenant, tenants.HashKey(keyOf(tenant)), weight)
	}
	write("tenants.yaml", policy)
	config := write("llmgov.yaml", fmt.Sprintf(`listen: "127.0.0.1:0"
admin: {listen: "127.0.0.1:0"}
policies: [tenants.yaml]
upstreams: {server: {base_url: "%s/v1"}}
pools: {p: {models: ["*"], accounting: production, %s}}
`, r.url, pool))
	s := &site{t: t, server: r, gov: processtest.Start(t, dir, config)}
	s.atRest()
	s.before = r.load(t)
	return s
}

// chat is the body of a call for exactly so many tokens.
func chat(output int, stream bool, more string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":%d,"ignore_eos":true,"stream":%t%s,"messages":[{"role":"user","content":"How long is a piece of string?"}]}`, output, stream, more)
}

const askForUsage = `,"stream_options":{"include_usage":true}`

// answer is the outcome of a call.
type answer struct {
	status int
	body   string
	err    error
}

// open sends a call, whose answer the caller closes.
func (s *site) open(ctx context.Context, path, tenant, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.gov.Data+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+keyOf(tenant))
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// call sends a call and reads its answer.
func (s *site) call(ctx context.Context, path, tenant, body string) answer {
	resp, err := s.open(ctx, path, tenant, body)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, body: string(text), err: err}
}

// charged are the tokens of a kind that llmgov charged.
func (s *site) charged(kind string) int64 {
	return int64(processtest.Sum(s.gov.Scrape(s.t), "llmgov_tokens_total", `kind="`+kind+`"`))
}

// worked is what the server worked since the site was made.
func (s *site) worked() (prompt, generated int64) {
	now := s.server.load(s.t)
	return now.prompt - s.before.prompt, now.generated - s.before.generated
}

// leases is how many calls run or wait in llmgov.
func (s *site) leases() int { return int(processtest.Sum(s.gov.Scrape(s.t), "llmgov_leases")) }

// atRest waits until nothing runs or waits, in llmgov and in the server.
func (s *site) atRest() {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now := s.server.load(s.t)
		if s.leases() == 0 && now.running == 0 && now.waiting == 0 {
			return
		}
		if time.Now().After(until) {
			s.t.Fatalf("%d leases are left, and the server runs %d calls and lets %d wait", s.leases(), now.running, now.waiting)
		}
	}
}
