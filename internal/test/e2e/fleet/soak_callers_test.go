package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lab/load"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// soakTenant is a tenant with its calls and its policy.
type soakTenant struct {
	load.Tenant
	policy string
}

// soakCrowd make some 190 calls a second together.
var soakCrowd = []soakTenant{
	calling("chat", load.Tenant{Rate: 70, Stream: 0.6}, "weight: 4, max_wait: 2s"),
	calling("responses", load.Tenant{Rate: 30, Path: load.Responses, Stream: 0.5}, "weight: 2, max_wait: 2s"),
	calling("messages", load.Tenant{Rate: 20, Path: load.Messages, Stream: 0.5}, "weight: 2, max_wait: 2s"),
	calling("embeddings", load.Tenant{Rate: 20, Path: load.Embeddings, Retry: load.RetrySDK}, "weight: 1, max_wait: 0s"),
	calling("long", load.Tenant{Rate: 1, Stream: 1, Output: distribution.Constant(500)}, "weight: 1, max_wait: 10s"),
	calling("bursts", load.Tenant{Rate: 1, Burst: load.Burst{Every: 30 * time.Second, Size: 200}, Retry: load.RetryHinted}, "weight: 1, max_wait: 5s"),
	calling("limited", load.Tenant{Rate: 10}, "rpm: 300, tpm: 60000, budgets: [{tokens: 1000000000, per: month}]"),
	calling("frail", load.Tenant{Model: "frail", Rate: 30, Stream: 1, Disconnect: 0.1, Storm: load.Storm{Every: time.Minute, Share: 0.5}}, "max_wait: 2s, concurrency: 80"),
}

// calling fills in what is the same for most.
func calling(name string, t load.Tenant, policy string) soakTenant {
	t.Name = name
	t.Key = "key-of-" + name
	t.Prompt = distribution.Distribution{Mean: 60, Sigma: 0.8, Min: 1, Max: 2000}
	if t.Model == "" {
		t.Model = "steady"
	}
	if t.Output.Zero() {
		t.Output = distribution.Distribution{Mean: 30, Sigma: 0.8, Min: 1, Max: 300}
	}
	return soakTenant{t, policy}
}

// soakPlan is the calls of a soak.
func soakPlan(d time.Duration) *load.Plan {
	p := &load.Plan{For: d, Seed: 1, Timeout: time.Minute, MaxInFlight: 5000}
	for _, x := range soakCrowd {
		p.Tenants = append(p.Tenants, x.Tenant)
	}
	return p
}

// change applies a policy every few seconds, until the calls are over. Each time its visitor calls, and a key is made, used
// and revoked.
func (s *soak) change(over <-chan struct{}) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		s.changes++
		s.apply(s.changes)
		s.useNewKey()
		visitor := fmt.Sprint("key-of-visitor-", s.changes)
		s.until(visitor, true)
		for range 10 {
			s.statusOf(visitor)
		}
		select {
		case <-over:
			return
		case <-tick.C:
		}
	}
}

// useNewKey makes a key, uses it at all gateways, and revokes it.
func (s *soak) useNewKey() {
	keys := s.gateways[0].proc.Load().Admin + "/api/v1/keys"
	var made struct{ ID, Key string }
	if err := askAdmin(http.MethodPost, keys, `{"tenant":"chat"}`, &made); err != nil {
		s.t.Errorf("a key: %v", err)
		return
	}
	s.until(made.Key, true)
	if err := askAdmin(http.MethodDelete, keys+"/"+made.ID, "", nil); err != nil {
		s.t.Errorf("revoking a key: %v", err)
	}
	s.until(made.Key, false)
}

// askAdmin is a request to the admin side.
func askAdmin(method, url, body string, into any) error {
	answer, err := processtest.Try(context.Background(), method, url, "", body)
	if err != nil || answer.Status >= 300 {
		return fmt.Errorf("%d %s %w", answer.Status, answer.Body, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal([]byte(answer.Body), into)
}

// until asks all gateways until each of them knows a key, or does not, twice in a row.
func (s *soak) until(key string, known bool) {
	deadline := time.Now().Add(time.Minute)
	for same := 0; same < 2*len(s.gateways); {
		status := s.statusOf(key)
		switch {
		case known == (status != http.StatusUnauthorized):
			same++
		case time.Now().After(deadline):
			s.t.Errorf("a key gets %d for a minute", status)
			return
		default:
			same = 0
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// statusOf is the status of one small call.
func (s *soak) statusOf(key string) int {
	body := strings.NewReader(`{"model":"steady","messages":[{"role":"user","content":"x"}],"max_tokens":5}`)
	req, err := http.NewRequest(http.MethodPost, "http://front/v1/chat/completions", body)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := s.front.RoundTrip(req)
	if err != nil {
		s.t.Errorf("a call of %.20s was lost: %v", key, err)
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

// checkAnswers wants an answer to every call, and failures only where the provider fails.
func (s *soak) checkAnswers(r *load.Report) {
	t := &r.Total
	s.t.Logf("%d calls in %.0f s: %d served, %d broken off by their callers, %d refused, %d failed; %d went to another gateway", t.Sent, r.Seconds, t.OK, t.Broken, t.Refused, t.Failed, s.front.moved.Load())
	s.t.Logf("%d policies and keys, %d mishaps, %d restarts of a gateway", s.changes, s.mishaps, len(s.lives)-len(s.gateways))
	if t.Sent < int64(r.Seconds*150) || t.Unfinished+t.Unsent > 0 {
		s.t.Errorf("%d calls were sent in %.0f s, %d were not, and %d have no end", t.Sent, r.Seconds, t.Unsent, t.Unfinished)
	}
	for i := range r.Tenants {
		f := &r.Tenants[i]
		for _, k := range f.Refusals {
			s.t.Logf("%s: %d refused: %s", f.Name, k.Count, k.Kind)
		}
		for _, k := range f.Failures {
			s.t.Logf("%s: %d failed: %s, for example %s", f.Name, k.Count, k.Kind, k.Example)
			answered := k.Kind == "stream: error event" || k.Kind[0] == '5'
			if !answered || f.Name != "frail" {
				s.t.Errorf("%s: %d calls failed: %s", f.Name, k.Count, k.Kind)
			}
		}
	}
}
