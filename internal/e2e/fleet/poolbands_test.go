package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// bandsFleet is three gateways that share a pool of slots through Redis: a chat team of three times the weight of a background team,
// which leaves slots free.
type bandsFleet struct {
	*limited
	client  *http.Client
	served  map[string]*atomic.Int64
	refused atomic.Int64
}

const bandsSlots = 60

func newBandsFleet(t *testing.T, rules string) *bandsFleet {
	t.Helper()
	f := &bandsFleet{
		limited: &limited{t: t}, served: map[string]*atomic.Int64{"chat": {}, "night": {}},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}},
	}
	t.Cleanup(f.client.CloseIdleConnections)
	policy := fmt.Sprintf("tenants:\n  chat: {keys: [%q], weight: 3, max_wait: 20s}\n  night: {keys: [%q], priority: background, max_wait: 20s}\n",
		tenants.HashKey("key-of-chat").String(), tenants.HashKey("key-of-night").String())
	f.configure(startMock(t), fmt.Sprintf("concurrency: {max: %d, %s}, expect_nodes: 3", bandsSlots, rules), redistest.New(t).URL(), policy)
	f.gateways = make([]*process, 3)
	var starting sync.WaitGroup
	for i := range f.gateways {
		starting.Go(func() { f.gateways[i] = launchNode(t, f.config, i) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return f
}

// keepCalling has callers of a tenant at each gateway, which call again and again until ctx ends.
func (f *bandsFleet) keepCalling(ctx context.Context, calls *sync.WaitGroup, tenant string, callers int) {
	for _, p := range f.gateways {
		for range callers {
			calls.Go(func() {
				for ctx.Err() == nil {
					if f.once(ctx, p, tenant) {
						f.served[tenant].Add(1)
					}
				}
			})
		}
	}
}

// once makes a call that takes 0.4 s, and reports whether it was served. Whether others are refused is no matter.
func (f *bandsFleet) once(ctx context.Context, p *process, tenant string) bool {
	const body = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":99,"mock":{"output_tokens":5,"token_ms":100}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer key-of-"+tenant)
	resp, err := f.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		f.refused.Add(1)
		time.Sleep(50 * time.Millisecond)
	}
	return resp.StatusCode == http.StatusOK
}

// await waits until so many more calls are served, and returns how many of each tenant were.
func (f *bandsFleet) await(calls int64) (chat, night int64) {
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
	for _, p := range f.gateways {
		line := f.metric(p, fmt.Sprintf("llmgov_share_%s_ratio{pool=\"p\",tenant=%q}", which, tenant))
		_, value, _ := strings.Cut(line, "} ")
		part, err := strconv.ParseFloat(value, 64)
		if err != nil {
			f.t.Fatalf("no share in %q: %v", line, err)
		}
		sum += part
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
	f.await(200)
	if peak := statsOf(t, f.mock).Peak; peak > bandsSlots*3/4 || peak < bandsSlots/2 {
		t.Errorf("alone, the background team had %d of %d slots at once, want nearly three quarters and no more", peak, bandsSlots)
	}
	f.keepCalling(ctx, &calls, "chat", 60)
	f.await(900) // until the gateways know of each other's calls, some beats later
	chat, night := f.await(3000)
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
	if peak := statsOf(t, f.mock).Peak; peak > bandsSlots {
		t.Errorf("the provider had %d calls at once, of %d", peak, bandsSlots)
	}
}
