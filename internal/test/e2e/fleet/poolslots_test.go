package fleet

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// ofEachStore runs a test with Redis, and in a long run with PostgreSQL as well.
func ofEachStore(t *testing.T, test func(t *testing.T, store string)) {
	t.Parallel()
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" {
				testkit.Long(t, "shows the same of another store")
			}
			t.Parallel()
			test(t, start(t))
		})
	}
}

// heavyAndLight are tenants of weights 3 and 1.
var heavyAndLight = map[string]string{"heavy": "weight: 3, max_wait: 5s", "light": "weight: 1, max_wait: 5s"}

// TestPoolSlots: two gateways with a store run as many calls at once as their pool may, by the count
// of the provider, and by weight; also when one of them has been killed.
func TestPoolSlots(t *testing.T) { ofEachStore(t, poolSlots) }

func poolSlots(t *testing.T, store string) {
	const slots, tenths = 8, 2
	model := processtest.NewProvider(t, mock.Config{})
	f := newFleet(t, 2, onePool(model, fmt.Sprint("concurrency: ", slots), store), heavyAndLight)
	for range 3 { // how long calls run is learned while nobody waits
		for i, tenant := range []string{"heavy", "light"} {
			redistest.Eventually(t, "a call is served", func() bool { return f.gateways[i].ask(tenant, tenths).Status == http.StatusOK })
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
					switch answer, err := f.gateways[i].call(t.Context(), tenant, lasting(tenths)); {
					case answer.Status == http.StatusOK:
						served[tenant].Add(1)
					case storeIsLate(answer):
						time.Sleep(50 * time.Millisecond) // a grant has expired before the next one came
					case answer.Status != http.StatusTooManyRequests && (i > 0 || !killed.Load()):
						t.Errorf("%s: %d %s %v", tenant, answer.Status, answer.Body, err)
					}
				}
			})
		}
	}
	count := func() (heavy, light int64) { return served["heavy"].Load(), served["light"].Load() }
	more := func(calls int64) (heavy, light int64) { // however long a busy machine takes for them
		heavyBefore, lightBefore := count()
		redistest.Eventually(t, "calls are served", func() bool {
			heavy, light = count()
			heavy -= heavyBefore
			light -= lightBefore
			return heavy+light >= calls
		})
		return heavy, light
	}
	more(slots * 6)
	heavy, light := more(slots * 30) // so many that a second in which one of them does not get to run counts for little
	if ratio := float64(heavy) / float64(max(1, light)); ratio < 2.2 || ratio > 4 {
		t.Errorf("of weights 3 and 1 %d and %d calls were served", heavy, light)
	}
	redistest.Eventually(t, "the snapshot shows slots in use", func() bool {
		limit, used := f.gateways[1].slotsShown()
		if limit != slots || used > slots {
			t.Fatalf("the snapshot shows %d of %d", used, limit)
		}
		return used >= slots-2
	})
	killed.Store(true)
	f.gateways[0].kill()
	redistest.Eventually(t, "the killed one's calls have ended", func() bool { return model.Stats().Running <= slots/2 })
	// At the store they count for 5 s: 2.5 s until it is given up, as long for what it ran.
	redistest.Eventually(t, "all slots are used after one gateway was killed", func() bool { return model.Stats().Running >= slots-1 })
	over.Store(true)
	ending.Wait()
	if peak := model.Stats().PeakRunning; peak != slots {
		t.Errorf("the provider had %d calls at once, of %d", peak, slots)
	}
}

// slotsShown is what its snapshot has of its pool's calls at once.
func (g *gateway) slotsShown() (limit, used int64) {
	for _, l := range g.snapshot()[0].Limits {
		if l.Axis == "concurrency" {
			return l.Limit, l.Used
		}
	}
	return 0, 0
}

// TestPoolBudget: two gateways with a store spend a pool's budget once, and each tenant its share.
func TestPoolBudget(t *testing.T) {
	ofEachStore(t, func(t *testing.T, store string) {
		model := processtest.NewProvider(t, mock.Config{})
		f := newFleet(t, 2, onePool(model, "concurrency: 100, budgets: [{requests: 40, per: month}]", store), heavyAndLight)
		f.await("light", f.gateways[0])
		if light, why := f.served("light", 9, 20, f.gateways...); light != 9 || !strings.Contains(why, "share") {
			t.Errorf("of 10 that are its share a tenant was served %d; then it says %s", light+1, why)
		}
		if heavy, why := f.served("heavy", 30, 20, f.gateways...); heavy != 30 || !strings.Contains(why, "insufficient_quota") {
			t.Errorf("of 30 that are its share a tenant was served %d; then it says %s", heavy, why)
		}
	})
}
