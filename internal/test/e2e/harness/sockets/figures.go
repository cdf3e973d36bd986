package sockets

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
)

// Eventually polls until cond holds.
func Eventually(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// WaitIdle waits until nothing runs, waits or is held any more.
func (s *Stack) WaitIdle() {
	s.T.Helper()
	Eventually(s.T, Patience, "no lease, no call in line, nothing running upstream", func() bool {
		running, waiting := s.Governor.Leases()
		idle := running == 0 && waiting == 0 && s.Leases() == 0
		for _, ts := range s.Governor.State().Tenants {
			idle = idle && ts.Running == 0 && ts.InLine == 0
		}
		st := s.Mock.Stats()
		return idle && st.Running == 0 && st.Queued == 0
	})
}

// adminGet reads an object of the admin API.
func (s *Stack) adminGet(path string, into any) {
	s.T.Helper()
	// Not the test's context: this also runs when it has ended.
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.admin.URL+path, nil)
	if err != nil {
		s.T.Fatal(err)
	}
	resp, err := s.Client.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		s.T.Fatalf("%s: %v", path, err)
	}
}

// Leases counts /api/v1/leases.
func (s *Stack) Leases() int {
	var v struct{ Leases []json.RawMessage }
	s.adminGet("/api/v1/leases", &v)
	return len(v.Leases)
}

// Used is the usage that counts against a tenant's own limits, by axis, from /api/v1/tenants.
func (s *Stack) Used(tenant string) map[string]int64 {
	s.T.Helper()
	var v struct {
		Tenants []struct {
			Name   string
			Limits []struct {
				Axis string
				Used int64
			}
		}
	}
	s.adminGet("/api/v1/tenants", &v)
	for _, t := range v.Tenants {
		if t.Name == tenant {
			used := map[string]int64{}
			for _, l := range t.Limits {
				used[l.Axis] = l.Used
			}
			return used
		}
	}
	s.T.Fatalf("/api/v1/tenants does not show %s", tenant)
	return nil
}

// WantUnused checks that a tenant's calls left no trace in its limits.
func (s *Stack) WantUnused(tenant string) {
	s.T.Helper()
	s.WaitIdle()
	for axis, used := range s.Used(tenant) {
		if used != 0 {
			s.T.Errorf("%d %s of %s stay used", used, axis, tenant)
		}
	}
}

// Charged sums llmgov_tokens_total over a kind.
func (s *Stack) Charged(kind string) int64 {
	s.T.Helper()
	return harness.Counted(s.T, s.Metrics, "llmgov_tokens_total", map[string]string{"kind": kind})
}

// WantChargedAsProduced checks that exactly the tokens were charged that the model server
// counted.
func (s *Stack) WantChargedAsProduced(tenant string) {
	s.T.Helper()
	s.WaitIdle()
	st := s.Mock.Stats()
	if in, out := s.Charged("input"), s.Charged("output"); in != st.PromptTokens || out != st.OutputTokens {
		s.T.Errorf("charged %d + %d tokens; the model server took %d and produced %d", in, out, st.PromptTokens, st.OutputTokens)
	}
	if used := s.Used(tenant)["tokens"]; used != st.TokensProduced {
		s.T.Errorf("%d tokens count against %s, the model server says %d", used, tenant, st.TokensProduced)
	}
}

// ChargedUsage are the tokens charged, by kind, of a tenant or of all.
func (s *Stack) ChargedUsage(tenant string) governor.Usage {
	kind := func(kind string) int64 {
		return harness.Counted(s.T, s.Metrics, "llmgov_tokens_total", map[string]string{"tenant": tenant, "kind": kind})
	}
	return governor.Usage{Input: kind("input"), CachedInput: kind("cached_input"), Output: kind("output"), Reasoning: kind("reasoning")}
}
