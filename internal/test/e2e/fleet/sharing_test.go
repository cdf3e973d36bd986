package fleet

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// A rolling minute can only be seen to be kept in more than a minute: -sharing 2m.
var sharingFor = flag.Duration("sharing", 8*time.Second, "how long gateways that share a limit are flooded, before one is killed")

// flooded is gateways, each with the provider's limit in its configuration, and the provider, which counts strictly.
type flooded struct {
	*fleet
	model *processtest.Provider

	served, refused, lost atomic.Int64
	degraded              sync.Map // values of x-llmgov-degraded, and of error codes with 503
}

const sharedLimit = 600_000

// newFlooded starts n gateways. Those of one pool and store share its limit.
func newFlooded(t *testing.T, n int, pool, limits string, model mock.Config, store string) *flooded {
	t.Helper()
	model.OutputTokens = 480
	f := &flooded{model: processtest.NewProvider(t, model)}
	if store != "memory" {
		limits += fmt.Sprint(", expect_nodes: ", n)
	}
	config := strings.Replace(onePool(f.model, limits+", max_queue: 100", store), "pools: {p:", "pools: {"+pool+":", 1)
	f.fleet = newFleet(t, n, config, map[string]string{"a": "weight: 1, max_wait: 2s", "b": "weight: 3, max_wait: 2s"})
	return f
}

// tokensShared is the limit of a pool and of a provider.
var tokensShared, tokensCounted = fmt.Sprint("tpm: ", sharedLimit), mock.Config{TPM: sharedLimit}

// flood asks at all gateways for so long.
func (f *flooded) flood(gateways []*gateway, d time.Duration) {
	f.floodUntil(gateways, d, func() bool { return false })
}

// floodUntil asks at all gateways until there is enough, or for as long as most. It returns how long that took.
func (f *flooded) floodUntil(gateways []*gateway, most time.Duration, enough func() bool) time.Duration {
	began := time.Now()
	ctx, cancel := context.WithTimeout(f.t.Context(), most)
	defer cancel()
	var wg sync.WaitGroup
	for _, g := range gateways {
		for i := range 12 {
			wg.Go(func() {
				for ctx.Err() == nil {
					f.call(ctx, g, "ab"[i%2:i%2+1])
				}
			})
		}
	}
	for ctx.Err() == nil && !enough() {
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	cancel()
	wg.Wait()
	return time.Since(began)
}

// serves asks at all gateways for so long, again and again, until at least so many calls are served in that time. It has to
// come to that within 20 s, a third of the minute after which any store grants again.
func (f *flooded) serves(when string, gateways []*gateway, d time.Duration, least int64) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		before := f.served.Load()
		f.flood(gateways, d)
		served := f.served.Load() - before
		f.t.Logf("%s: %d calls in %v", when, served, d)
		if served >= least {
			return
		}
		if time.Now().After(end) {
			f.t.Errorf("%s: %d calls were served in %v, not %d", when, served, d, least)
			return
		}
	}
}

func (f *flooded) call(ctx context.Context, g *gateway, tenant string) {
	answer, err := g.call(ctx, tenant, longCall)
	if err != nil {
		f.lost.Add(1)
		time.Sleep(20 * time.Millisecond)
		return
	}
	if mode := answer.Header.Get("X-Llmgov-Degraded"); mode != "" {
		f.degraded.Store(mode, true)
	}
	if answer.Status == http.StatusOK {
		f.served.Add(1)
		return
	}
	f.refused.Add(1)
	if answer.Status == http.StatusServiceUnavailable {
		f.degraded.Store(gjson.Get(answer.Body, "error.code").Str, true)
	}
	time.Sleep(50 * time.Millisecond)
}

func (f *flooded) saw(what string) bool {
	_, ok := f.degraded.Load(what)
	return ok
}

// TestSharing: three gateways with one limit use it once, as one that is alone would; also
// when one of them is killed and when the store is lost for a while. The provider, which
// counts strictly, refuses nothing.
func TestSharing(t *testing.T) {
	testkit.Long(t, "compares gateways in real time")
	t.Parallel()
	server := pgtest.New(t)
	shared := newFlooded(t, 3, "p", tokensShared, tokensCounted, server.URL())
	alone := newFlooded(t, 1, "p", tokensShared, tokensCounted, "memory")
	began := time.Now()
	var both sync.WaitGroup
	both.Go(func() { alone.flood(alone.gateways, *sharingFor) })
	shared.flood(shared.gateways, *sharingFor)
	both.Wait()
	one := alone.served.Load()
	three := shared.served.Load()
	t.Logf("in %v three gateways were served %d calls (%d refused), one %d (%d refused): %.3f; the limit is %d a minute", time.Since(began).Round(time.Second),
		three, shared.refused.Load(), one, alone.refused.Load(), float64(three)/float64(one), sharedLimit/490)
	if three > one*110/100 || three < one*88/100 {
		t.Errorf("three gateways that share were served %d calls, and one that is alone %d", three, one)
	}
	metrics := shared.gateways[0].proc.Load().Scrape(t)
	for _, want := range []string{
		`llmgov_region_share_ratio{pool="p",region="r0"} 0.`, `llmgov_region_share_ratio{pool="p",region="r1"} 0.`,
		`llmgov_degraded{mode="closed",pool="p"} 0`, "llmgov_store_up 1", `llmgov_store_latency_seconds_count{op="beat"}`,
	} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("the metrics lack %s:\n%s", want, regexp.MustCompile(`(?m)^llmgov_(region|degraded|store).*`).FindAllString(metrics, -1))
		}
	}
	epoch := shared.gateways[0].snapshot()[0].Sharing.Epoch
	if s := shared.gateways[0].snapshot()[0].Sharing; s == nil || s.Status != "granted" || len(s.Nodes) != 3 {
		t.Errorf("the snapshot shows %+v", s)
	}

	shared.gateways[2].kill()
	before := shared.served.Load()
	shared.flood(shared.gateways[:2], 8*time.Second)
	two := shared.served.Load() - before
	t.Logf("with one of three killed: %d calls in 8 s, of %d", two, sharedLimit/490*8/60)
	if two < sharedLimit/490*8/60*70/100 {
		t.Errorf("after one was killed, only %d calls were served in 8 s", two)
	}

	server.Stop()
	shared.flood(shared.gateways[:2], 5*time.Second)
	if !shared.saw("closed") || !shared.saw("store_unavailable") {
		t.Error("without the store no call was refused for that")
	}
	for _, path := range []string{"/readyz", "/metrics"} {
		if answer := processtest.Ask(t, http.MethodGet, shared.gateways[0].proc.Load().Admin+path, "", ""); answer.Status != http.StatusOK {
			t.Errorf("without the store %s says %+v", path, answer)
		}
	}
	server.Start()
	shared.serves("with the store back", shared.gateways[:2], 4*time.Second, sharedLimit/490*4/60*70/100)
	redistest.Eventually(t, "a beat without an error, of the account from before the restart", func() bool {
		s := shared.gateways[0].snapshot()[0].Sharing
		return s.Epoch == epoch && s.Error == ""
	})
	shared.gateways[2].restart()
	redistest.Eventually(t, "a grant of a gateway that was started again", func() bool {
		shared.call(t.Context(), shared.gateways[2], "b")
		return shared.gateways[2].snapshot()[0].Sharing.Status == "granted"
	})
	st := shared.model.Stats()
	t.Logf("the provider admitted %d and refused %d in %v", st.Admitted, st.Refused, time.Since(began).Round(time.Second))
	if st.Refused != 0 {
		t.Errorf("the provider refused %d of %d", st.Refused, st.Admitted)
	}
}
