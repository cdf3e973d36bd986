package fleet

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// limited is two gateways whose tenants have limits of their own.
type limited struct {
	*fleet
	model *processtest.Provider
}

func newLimited(t *testing.T, store, pool string) *limited {
	t.Helper()
	l := &limited{model: processtest.NewProvider(t, mock.Config{})}
	l.fleet = newFleet(t, 2, onePool(l.model, "rpm: 100000, expect_nodes: 2, "+pool, store), map[string]string{
		"free": "weight: 1", "minute": "rpm: 20", "slots": "concurrency: 3", "budget": "budgets: [{requests: 25, per: month}]",
		"member": "members: {by: session, each: {budgets: [{requests: 10, per: month}]}}",
	})
	l.await("free", l.gateways...)
	return l
}

// onePool is the config of a pool with such limits.
func onePool(model *processtest.Provider, limits, store string) string {
	return fmt.Sprintf("upstreams: {mock: {base_url: %s}}\npools: {p: {models: [\"*\"], %s}}\nstore: %q\n", model.URL, limits, store)
}

// TestTenantLimits: two gateways with a store admit of a tenant's own limits what one would:
// requests of a minute, calls at once and a budget, also when one of them has been killed
// and another started in its place.
func TestTenantLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, store string
		long        bool
	}{
		{"leased", "redis", false},
		{"leased", "postgres", true},
		{"strict", "redis", true},
		{"strict", "postgres", false},
		{"cached_deny", "redis", true},
	} {
		t.Run(c.mode+" "+c.store, func(t *testing.T) {
			if c.long {
				testkit.Long(t, "shows the same of another mode and store")
			}
			t.Parallel()
			l := newLimited(t, stores[c.store](t), "tenant_limits: "+c.mode)
			began := time.Now()
			var asking sync.WaitGroup
			asking.Go(func() {
				n, why := l.served("minute", 20, 20, l.gateways...)
				if n != 20 || !strings.Contains(why, "Limit 20, Used 20, Requested 1.") {
					t.Errorf("of 20 requests a minute %d were served; then it says %s", n, why)
				}
			})
			asking.Go(func() {
				n, why := l.served("budget", 25, 20, l.gateways...)
				if n != 25 || !strings.Contains(why, "insufficient_quota") {
					t.Errorf("of a budget of 25 requests %d were served; then it says %s", n, why)
				}
			})
			asking.Go(func() {
				if n, why := l.served("member", 10, 50, l.gateways...); n != 10 || !strings.Contains(why, "insufficient_quota") {
					t.Errorf("of a member's budget of 10 requests %d were served; then it says %s", n, why)
				}
			})
			asking.Wait()
			l.slots()
			l.crash()
			l.gateways[0].restart()
			l.await("free", l.gateways[0])
			if more, _ := l.served("budget", 0, 30, l.gateways...); more > 0 {
				t.Errorf("after one was killed and another started, %d more of the budget were served", more)
			}
			more, _ := l.served("minute", 0, 10, l.gateways...)
			if took := time.Since(began); more > 0 && took < time.Minute {
				t.Errorf("%d more of the minute were served within %v", more, took)
			}
			if peak := l.model.Stats().PeakRunning; peak != 3 {
				t.Errorf("of 3 calls at once %d were", peak)
			}
		})
	}
}

// slots has more calls than slots come at both gateways, until as many run at once as may. Those that may not are refused.
func (l *limited) slots() {
	l.t.Helper()
	l.model.ResetStats()
	var full atomic.Bool
	var callers sync.WaitGroup
	for i := range 10 {
		callers.Go(func() {
			for !full.Load() {
				answer := l.gateways[i%2].ask("slots", 5)
				refused := answer.Status == http.StatusTooManyRequests && strings.Contains(answer.Body, `"concurrency"`)
				if answer.Status != http.StatusOK && !refused && !storeIsLate(answer) {
					l.t.Errorf("slots: %d %s", answer.Status, answer.Body)
					return
				}
			}
		})
	}
	defer callers.Wait()
	defer full.Store(true)
	redistest.Eventually(l.t, "as many calls run at once as may", func() bool { return l.model.Stats().PeakRunning >= 3 })
}

// crash kills the first gateway in the middle of as many calls as may run at once: others may run then.
func (l *limited) crash() {
	l.t.Helper()
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() { l.untilKilled(l.gateways[0]) })
	}
	redistest.Eventually(l.t, "calls run", func() bool {
		return l.gateways[0].sum("llmgov_used", `axis="concurrency"`, `pool=""`, `tenant="slots"`) == 3
	})
	l.gateways[0].kill()
	running.Wait()
	redistest.Eventually(l.t, "all slots are free again", func() bool {
		var served atomic.Int64
		testkit.AtOnce(3, func(_ int) {
			if l.gateways[1].ask("slots", 3).Status == http.StatusOK {
				served.Add(1)
			}
		})
		return served.Load() == 3
	})
}

// untilKilled has a long call run that takes a slot, as soon as there is one.
func (l *limited) untilKilled(g *gateway) {
	for {
		answer, err := g.call(l.t.Context(), "slots", lasting(1200))
		if err != nil {
			return
		}
		if answer.Status == http.StatusOK {
			l.t.Error("it was answered before it was killed")
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestTenantLimits_Cut: where the store of a pool that asks it for each call does not answer, the
// pool's rule decides, and says so; tenants without limits are not asked about. With the store
// back all is as before.
func TestTenantLimits_Cut(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]int{"closed": http.StatusServiceUnavailable, "open": http.StatusOK} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			server := redistest.New(t)
			l := newLimited(t, server.URL(), "tenant_limits: strict, on_store_loss: "+rule)
			g := l.gateways[0]
			served := func(tenant string) func() bool {
				return func() bool {
					answer := g.ask(tenant, 0)
					return answer.Status == http.StatusOK && answer.Header.Get("X-Llmgov-Degraded") == ""
				}
			}
			redistest.Eventually(t, "calls go", served("free"))
			asks := func() float64 { return g.sum("llmgov_store_latency_seconds_count", `op="ask"`) }
			before := asks()
			limited := 0.0 // calls, each of which is asked about once, though metrics may tell of it a moment later
			for range 5 {
				g.ask("free", 0)
			}
			redistest.Eventually(t, "the store is asked for a tenant with a limit", func() bool {
				limited++
				g.ask("minute", 0)
				return asks() > before
			})
			if asked := asks() - before; asked > limited {
				t.Errorf("the store was asked %v times for %v calls of a tenant with a limit, and others", asked, limited)
			}
			testkit.OK(t, syscall.Kill(server.Pid(), syscall.SIGSTOP))
			answer := g.ask("minute", 0) // its deadline is far shorter than that of the test
			if answer.Status != want || answer.Header.Get("X-Llmgov-Degraded") != rule {
				t.Errorf("cut off: %d, degraded %q: %s", answer.Status, answer.Header.Get("X-Llmgov-Degraded"), answer.Body)
			}
			if rule == "closed" && (answer.Header.Get("Retry-After") == "" || !strings.Contains(answer.Body, `"store_unavailable"`)) {
				t.Errorf("it says %v %s", answer.Header, answer.Body)
			}
			if g.sum("llmgov_degraded", `mode="`+rule+`"`, `pool="p"`) != 1 {
				t.Error("metrics do not tell that it is degraded")
			}
			testkit.OK(t, syscall.Kill(server.Pid(), syscall.SIGCONT))
			redistest.Eventually(t, "calls go again", served("slots"))
		})
	}
}
