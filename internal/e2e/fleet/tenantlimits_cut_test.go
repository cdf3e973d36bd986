package main

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// TestTenantLimits_Cut: where the store of a pool that asks it for each call does not answer, the
// pool's rule decides after a moment, and says so; who has no limits need not ask. With the store
// back all is as before.
func TestTenantLimits_Cut(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]int{"closed": http.StatusServiceUnavailable, "open": http.StatusOK} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			server := redistest.New(t)
			l := newLimited(t, server.URL(), ", tenant_limits: strict, on_store_loss: "+rule)
			p := l.gateways[0]
			redistest.Eventually(t, "calls go", func() bool {
				resp, _ := l.answer(p, "free")
				return resp.StatusCode == http.StatusOK && resp.Header.Get("X-Llmgov-Degraded") == ""
			})
			if err := syscall.Kill(server.Pid(), syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			resp, text := l.answer(p, "minute")
			if took := time.Since(began); resp.StatusCode != want || resp.Header.Get("X-Llmgov-Degraded") != rule || took > 2*time.Second {
				t.Errorf("cut off: %d, degraded %q, after %v: %s", resp.StatusCode, resp.Header.Get("X-Llmgov-Degraded"), took, text)
			}
			if want != http.StatusOK && (resp.Header.Get("Retry-After") == "" || !strings.Contains(text, `"store_unavailable"`)) {
				t.Errorf("it says %v %s", resp.Header, text)
			}
			if line := l.metric(p, `llmgov_degraded{mode="`+rule+`",pool="p"}`); !strings.HasSuffix(line, " 1") {
				t.Errorf("metrics say %q", line)
			}
			if status, text := l.call(p, "free", 0); status != http.StatusOK && time.Since(began) < 2*time.Second {
				t.Errorf("who has no limits: %d %s", status, text)
			}
			if err := syscall.Kill(server.Pid(), syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, "calls go again", func() bool {
				resp, _ := l.answer(p, "slots")
				return resp.StatusCode == http.StatusOK && resp.Header.Get("X-Llmgov-Degraded") == ""
			})
			if line := l.metric(p, `llmgov_store_latency_seconds_count{op="ask"}`); line == "" {
				t.Error("metrics do not tell of asks")
			}
		})
	}
}

// answer is what a short call is answered.
func (l *limited) answer(p *process, tenant string) (*http.Response, string) {
	body := `{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":9}`
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key-of-"+tenant)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp, string(text)
}

// metric is the line of a series, or empty.
func (l *limited) metric(p *process, series string) string {
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, series) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
