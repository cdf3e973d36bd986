package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// TestPoolSlots: two gateways with a store run as many calls at once as their pool may, by the count
// of the provider, and by weight; also when one of them has been killed.
func TestPoolSlots(t *testing.T) {
	t.Parallel()
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			poolSlots(t, store(t))
		})
	}
}

// poolGateways starts two with a store, a pool of such limits, and two tenants.
func poolGateways(t *testing.T, store, mock, limits string) *limited {
	t.Helper()
	l := &limited{t: t}
	policy := "tenants:\n"
	for tenant, weight := range map[string]int{"heavy": 3, "light": 1} {
		policy += fmt.Sprintf("  %s: {keys: [%q], weight: %d, max_wait: 5s}\n", tenant, tenants.HashKey("key-of-"+tenant).String(), weight)
	}
	l.configure(mock, limits, store, policy)
	for i := range 2 {
		l.gateways = append(l.gateways, launchNode(t, l.config, i))
	}
	if t.Failed() {
		t.FailNow()
	}
	return l
}

func poolSlots(t *testing.T, store string) {
	const slots = 8
	mock := startMock(t)
	l := poolGateways(t, store, mock, fmt.Sprint("concurrency: ", slots))
	for range 3 { // how long calls run is learned while nobody waits
		for i, tenant := range []string{"heavy", "light"} {
			redistest.Eventually(t, "a call is served", func() bool {
				status, _ := l.call(l.gateways[i], tenant, 4)
				return status == http.StatusOK
			})
		}
	}

	var ending sync.WaitGroup
	var killed, over atomic.Bool
	defer ending.Wait()
	defer over.Store(true)
	served := map[string]*atomic.Int64{"heavy": {}, "light": {}}
	for i, tenant := range []string{"heavy", "light"} { // each at one of them
		for range 16 {
			ending.Go(func() {
				for !over.Load() && !(i == 0 && killed.Load()) {
					switch status, text, err := l.try(l.gateways[i], tenant, 4); {
					case status == http.StatusOK:
						served[tenant].Add(1)
					case status == http.StatusServiceUnavailable && strings.Contains(text, "store_unavailable"):
						time.Sleep(50 * time.Millisecond) // a busy machine, on which a grant expires before the next one comes
					case status != http.StatusTooManyRequests && (i > 0 || !killed.Load()):
						t.Errorf("%s: %d %s %v", tenant, status, text, err)
					}
				}
			})
		}
	}
	count := func(tenant string, of int64) int64 { return served[tenant].Load() - of }
	more := func(calls, heavy, light int64) { // however long a busy machine takes for them
		redistest.Eventually(t, "calls are served", func() bool { return count("heavy", heavy)+count("light", light) >= calls })
	}
	more(slots*6, 0, 0)
	heavy := served["heavy"].Load()
	light := served["light"].Load()
	more(slots*10, heavy, light)
	heavy = count("heavy", heavy)
	light = count("light", light)
	if ratio := float64(heavy) / float64(max(1, light)); ratio < 2.2 || ratio > 4 {
		t.Errorf("of weights 3 and 1 %d and %d calls were served", heavy, light)
	}
	redistest.Eventually(t, "the snapshot shows slots in use", func() bool {
		limit, used := slotsShown(t, l.gateways[1])
		if limit != slots || used > slots {
			t.Fatalf("the snapshot shows %d of %d", used, limit)
		}
		return used >= slots-2
	})
	killed.Store(true)
	l.gateways[0].kill()
	redistest.Eventually(t, "the killed one's calls have ended", func() bool {
		return statsOf(t, mock).Running <= slots/2
	})
	// At the store they count for 5 s: 2.5 s until it is given up, as long for what it ran.
	redistest.Eventually(t, "all slots are used after one gateway was killed", func() bool {
		return statsOf(t, mock).Running >= slots-1
	})
	over.Store(true)
	ending.Wait()
	if peak := statsOf(t, mock).Peak; peak != slots {
		t.Errorf("the provider had %d calls at once, of %d", peak, slots)
	}
}

// TestPoolBudget: two gateways with a store spend a pool's budget once, and each tenant its share.
func TestPoolBudget(t *testing.T) {
	t.Parallel()
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := poolGateways(t, store(t), startMock(t), "concurrency: 100, budgets: [{requests: 40, per: month}]")
			redistest.Eventually(t, "a call is served", func() bool {
				status, _ := l.call(l.gateways[0], "light", 0)
				return status == http.StatusOK
			})
			if light, why := l.served("light", 9, 2*time.Second, l.gateways...); light != 9 || !strings.Contains(why, "share") {
				t.Errorf("of 10 that are its share a tenant was served %d; then it says %s", light+1, why)
			}
			if heavy, why := l.served("heavy", 30, 2*time.Second, l.gateways...); heavy != 30 || !strings.Contains(why, "insufficient_quota") {
				t.Errorf("of 30 that are its share a tenant was served %d; then it says %s", heavy, why)
			}
		})
	}
}

// slotsShown is what a gateway's snapshot has of its pool's calls at once.
func slotsShown(t *testing.T, p *process) (limit, used int64) {
	t.Helper()
	resp, err := http.Get(p.admin + "/api/v1/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var snapshot struct {
		Pools []struct {
			Limits []struct {
				Axis        string
				Limit, Used int64
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&snapshot); err != nil || len(snapshot.Pools) != 1 {
		t.Fatal(snapshot, err)
	}
	for _, l := range snapshot.Pools[0].Limits {
		if l.Axis == "concurrency" {
			limit = l.Limit
			used = l.Used
		}
	}
	return limit, used
}
