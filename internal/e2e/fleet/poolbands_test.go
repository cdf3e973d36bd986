package fleet

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// bandsFleet is three gateways that share a pool of slots through Redis: a chat team of three times the weight of a background team,
// which leaves slots free.
type bandsFleet struct {
	*fleet
	model   *processtest.Provider
	served  map[string]*atomic.Int64
	refused atomic.Int64
}

const bandsSlots = 60

func newBandsFleet(t *testing.T, rules string) *bandsFleet {
	t.Helper()
	f := &bandsFleet{model: processtest.NewProvider(t, mock.Config{}), served: map[string]*atomic.Int64{"chat": {}, "night": {}}}
	limits := fmt.Sprintf("concurrency: {max: %d, %s}, expect_nodes: 3", bandsSlots, rules)
	f.fleet = newFleet(t, 3, onePool(f.model, limits, redistest.New(t).URL()), map[string]string{
		"chat": "weight: 3, max_wait: 20s", "night": "priority: background, max_wait: 20s",
	})
	return f
}

// keepCalling has callers of a tenant at each gateway, which call again and again until ctx ends.
func (f *bandsFleet) keepCalling(ctx context.Context, calls *sync.WaitGroup, tenant string, callers int) {
	for _, g := range f.gateways {
		for range callers {
			calls.Go(func() {
				for ctx.Err() == nil {
					if f.once(ctx, g, tenant) {
						f.served[tenant].Add(1)
					}
				}
			})
		}
	}
}

// once makes a call that takes 0.4 s, and reports whether it was served. Whether others are refused is no matter.
func (f *bandsFleet) once(ctx context.Context, g *gateway, tenant string) bool {
	answer, err := g.call(ctx, tenant, lasting(4))
	if err == nil && answer.Status != http.StatusOK {
		f.refused.Add(1)
		time.Sleep(50 * time.Millisecond)
	}
	return answer.Status == http.StatusOK
}

// more waits until so many more calls are served, and returns how many of each tenant were.
func (f *bandsFleet) more(calls int64) (chat, night int64) {
	f.t.Helper()
	chatBefore := f.served["chat"].Load()
	nightBefore := f.served["night"].Load()
	redistest.Eventually(f.t, "calls are served", func() bool {
		chat = f.served["chat"].Load() - chatBefore
		night = f.served["night"].Load() - nightBefore
		return chat+night >= calls
	})
	return chat, night
}

// share is a share of a tenant in the pool's last minute, by the metrics of all gateways.
func (f *bandsFleet) share(which, tenant string) (sum float64) {
	f.t.Helper()
	for _, g := range f.gateways {
		sum += g.sum("llmgov_share_"+which+"_ratio", `pool="p"`, `tenant="`+tenant+`"`)
	}
	return sum
}

// TestPoolBands_Redis: over three gateways with a Redis, a background team alone leaves the slots free that are held back from it, and
// beside a team that always has calls waiting it is served its share by weight, within 3 %.
func TestPoolBands_Redis(t *testing.T) {
	testkit.Long(t, "serves four thousand calls in real time")
	t.Parallel()
	f := newBandsFleet(t, "interactive_reserve: 6, hold_back: 0.25")
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	f.keepCalling(ctx, &calls, "night", 60)
	f.more(200)
	if peak := f.model.Stats().PeakRunning; peak > bandsSlots*3/4 || peak < bandsSlots/2 {
		t.Errorf("alone, the background team had %d of %d slots at once, want nearly three quarters and no more", peak, bandsSlots)
	}
	f.keepCalling(ctx, &calls, "chat", 60)
	f.more(900) // until the gateways know of each other's calls, some beats later
	chat, night := f.more(3000)
	part := float64(night) / float64(chat+night)
	t.Logf("beside %d calls of another, %d of the background team were served: %.4f; %d refused", chat, night, part, f.refused.Load())
	if math.Abs(part/0.25-1) > 0.03 {
		t.Errorf("the background team was served %.4f of the calls, want a quarter", part)
	}
	for tenant := range f.served {
		received := f.share("received", tenant)
		entitled := f.share("entitled", tenant)
		t.Logf("by the metrics %s received %.4f of the pool's minute, and was entitled to %.4f", tenant, received, entitled)
		if received < 0.5*entitled { // LlmgovTenantStarved would fire
			t.Errorf("by the metrics %s received %.4f of the pool's minute, and was entitled to %.4f", tenant, received, entitled)
		}
	}
	if peak := f.model.Stats().PeakRunning; peak > bandsSlots {
		t.Errorf("the provider had %d calls at once, of %d", peak, bandsSlots)
	}
}
