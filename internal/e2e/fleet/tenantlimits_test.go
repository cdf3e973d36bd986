package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// stores start a store of each kind, and answer its URL.
var stores = map[string]func(*testing.T) string{
	"redis":    func(t *testing.T) string { return redistest.New(t).URL() },
	"postgres": func(t *testing.T) string { return pgtest.New(t).URL() },
}

// limited is gateways whose tenants have limits of their own.
type limited struct {
	t        *testing.T
	mock     string
	config   string
	gateways []*process
}

func newLimited(t *testing.T, store, pool string) *limited {
	t.Helper()
	policy := "tenants:\n"
	for name, limits := range map[string]string{
		"free": "weight: 1", "minute": "rpm: 20", "slots": "concurrency: 3", "budget": "budgets: [{requests: 25, per: month}]",
	} {
		policy += fmt.Sprintf("  %s: {keys: [%q], %s}\n", name, tenants.HashKey("key-of-"+name).String(), limits)
	}
	l := &limited{t: t}
	l.configure(startMock(t), "rpm: 100000, expect_nodes: 2"+pool, store, policy)
	var starting sync.WaitGroup
	l.gateways = make([]*process, 2)
	for i := range l.gateways {
		starting.Go(func() { l.gateways[i] = launchNode(t, l.config, i) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	l.await(l.gateways...)
	return l
}

// configure writes down what all gateways read: one pool of such limits, a store, and a policy.
func (l *limited) configure(mock, limits, store, policy string) {
	l.t.Helper()
	l.mock = mock
	dir := l.t.TempDir()
	l.config = filepath.Join(dir, "llmgov.yaml")
	for file, text := range map[string]string{
		l.config:                           fmt.Sprintf("upstreams: {mock: {base_url: %s/v1}}\npools: {p: {models: [\"*\"], %s}}\nstore: %q\npolicies: [tenants.yaml]\n", mock, limits, store),
		filepath.Join(dir, "tenants.yaml"): policy,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
}

// await waits until the store grants.
func (l *limited) await(gateways ...*process) {
	l.t.Helper()
	for _, p := range gateways {
		redistest.Eventually(l.t, "the store grants", func() bool {
			status, _ := l.call(p, "free", 0)
			return status == http.StatusOK
		})
	}
}

// call asks at a gateway, for an answer that takes so many tenths of a second.
func (l *limited) call(p *process, tenant string, tenths int) (status int, text string) {
	status, text, err := l.try(p, tenant, tenths)
	if err != nil {
		l.t.Error(err)
	}
	return status, text
}

func (l *limited) try(p *process, tenant string, tenths int) (status int, text string, err error) {
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":%d,"mock":{"output_tokens":%d,"token_ms":100}}`, max(99, tenths), max(1, tenths))
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer key-of-"+tenant)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), nil
}

// served asks at all gateways in turn until so many calls have been served, as fast as this machine can, and
// then for so long whether there are more. It counts the answers.
func (l *limited) served(tenant string, want int, d time.Duration, gateways ...*process) (served int, last string) {
	began := time.Now()
	end := began.Add(d)
	for i := 0; time.Now().Before(end); i++ {
		if served < want && time.Since(began) < patience/2 {
			end = time.Now().Add(d)
		}
		status, text := l.call(gateways[i%len(gateways)], tenant, 0)
		switch status {
		case http.StatusOK:
			served++
		case http.StatusTooManyRequests:
			last = text
			time.Sleep(50 * time.Millisecond)
		case http.StatusServiceUnavailable: // a busy machine, on which an answer takes more than 50 ms
			if !strings.Contains(text, "store_unavailable") {
				l.t.Fatalf("%s: %s", tenant, text)
			}
		default:
			l.t.Fatalf("%s: %d %s", tenant, status, text)
		}
	}
	return served, last
}

// TestTenantLimits: two gateways with a store admit of a tenant's own limits what one would:
// requests of a minute, calls at once and a budget, also when one of them has been killed
// and another started in its place.
func TestTenantLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, store string }{
		{"leased", "redis"},
		{"leased", "postgres"},
		{"strict", "redis"},
		{"strict", "postgres"},
		{"cached_deny", "redis"},
	} {
		t.Run(c.mode+" "+c.store, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t, stores[c.store](t), ", tenant_limits: "+c.mode)
			began := time.Now()
			minute, why := l.served("minute", 20, 2*time.Second, l.gateways...)
			if minute != 20 || !strings.Contains(why, "Limit 20, Used 20, Requested 1.") {
				t.Errorf("of 20 requests a minute %d were served; then it says %s", minute, why)
			}
			l.slots()
			budget, why := l.served("budget", 25, 2*time.Second, l.gateways...)
			if budget != 25 || !strings.Contains(why, "insufficient_quota") {
				t.Errorf("of a budget of 25 requests %d were served; then it says %s", budget, why)
			}
			l.crash()
			fresh := launchNode(t, l.config, 0)
			if fresh == nil {
				t.FailNow()
			}
			l.await(fresh)
			if more, _ := l.served("budget", 0, 3*time.Second, l.gateways[1], fresh); more > 0 {
				t.Errorf("after one was killed and another started, %d more of the budget were served", more)
			}
			more, _ := l.served("minute", 0, time.Second, l.gateways[1], fresh)
			if took := time.Since(began); more > 0 && took < time.Minute {
				t.Errorf("%d more of the minute were served within %v", more, took)
			}
		})
	}
}

// crash kills the first gateway in the middle of as many calls as may run at once: others may run then.
func (l *limited) crash() {
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() { l.untilKilled(l.gateways[0]) })
	}
	redistest.Eventually(l.t, "calls run", func() bool {
		line := l.metric(l.gateways[0], `llmgov_used{axis="concurrency",pool="",tenant="slots"}`)
		return strings.HasSuffix(line, " 3")
	})
	l.gateways[0].kill()
	running.Wait()
	redistest.Eventually(l.t, "all slots are free again", func() bool {
		var served atomic.Int64
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				if status, _ := l.call(l.gateways[1], "slots", 3); status == http.StatusOK {
					served.Add(1)
				}
			})
		}
		calls.Wait()
		return served.Load() == 3
	})
}

// untilKilled has a long call run that takes a slot, as soon as there is one.
func (l *limited) untilKilled(p *process) {
	for {
		status, _, err := l.try(p, "slots", 1200)
		if err != nil {
			return
		}
		if status == http.StatusOK {
			l.t.Error("it was answered before it was killed")
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// slots looks whether calls at once are counted over all gateways.
func (l *limited) slots() {
	var running sync.WaitGroup
	var served, late atomic.Int64
	for i := range 10 {
		running.Go(func() {
			switch status, text := l.call(l.gateways[i%2], "slots", 20); {
			case status == http.StatusOK:
				served.Add(1)
			case status == http.StatusServiceUnavailable:
				late.Add(1)
			case status != http.StatusTooManyRequests || !strings.Contains(text, `"concurrency"`):
				l.t.Errorf("slots: %d %s", status, text)
			}
		})
	}
	running.Wait()
	if n, peak := served.Load(), statsOf(l.t, l.mock).Peak; peak > 3 || n+late.Load() < 3 {
		l.t.Errorf("of 3 calls at once %d were, and %d of 10 were served", peak, n)
	}
}
