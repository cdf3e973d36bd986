package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lab/load"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// TestCalmQuiet measures what calls cost of tenants that have limits of their own and call rarely: 200 calls per second in all.
func TestCalmQuiet(t *testing.T) {
	if *calmFor == 0 {
		t.Skip("takes minutes; make calm")
	}
	for _, tenants := range []int{1_000, 10_000} {
		alone := quietFigures(t, tenants, "memory")
		shared := quietFigures(t, tenants, "redis")
		t.Logf("%d quiet tenants: %.2f round trips and %.3f ms of CPU for each call with Redis; %.3f ms without a store",
			tenants, shared.trips, shared.cpu, alone.cpu)
	}
}

// quiet is what a call costs a gateway: round trips to the store, and milliseconds of CPU.
type quiet struct{ trips, cpu float64 }

func quietFigures(t *testing.T, tenants int, store string) (q quiet) {
	t.Run(fmt.Sprint(tenants, " ", store), func(t *testing.T) {
		provider := processtest.NewProvider(t, mock.Config{})
		settings := map[string]string{}
		for i := range tenants {
			settings[fmt.Sprint("team-", i)] = "tpm: 60000, rpm: 600"
		}
		limits, url := "tpm: 100000000", store
		if start := stores[store]; start != nil {
			limits += ", expect_nodes: 1"
			url = start(t)
		}
		f := newFleet(t, 1, onePool(provider, limits, url), settings)
		g := f.gateways[0]
		f.await("team-0", g)
		all := load.DefaultTenant()
		all.Rate = 200
		all.Stream = 0
		all.Prompt = distribution.Constant(60)
		all.Output = distribution.Constant(30)
		ask := func(d time.Duration) int64 {
			plan := &load.Plan{For: d, Seed: 1, Timeout: time.Minute, MaxInFlight: 1000, Tenants: []load.Tenant{all}}
			ring := &keyRing{RoundTripper: load.NewTransport(100), n: int64(tenants)}
			r := load.Run(t.Context(), plan, load.Options{URL: g.proc.Load().Data, Transport: ring})
			for _, k := range r.Total.Refusals {
				t.Logf("%d of %d calls were refused: %s", k.Count, r.Total.Offered, k.Kind)
			}
			if r.Total.Failed+r.Total.Unfinished > 0 {
				t.Errorf("%d calls failed, and %d have no end: %v", r.Total.Failed, r.Total.Unfinished, r.Notes)
			}
			return r.Total.OK
		}
		ask(calmWarmup)
		cpu := g.sum("process_cpu_seconds_total")
		trips := g.sum("llmgov_store_round_trips_total")
		calls := float64(ask(*calmFor))
		q.cpu = 1000 * (g.sum("process_cpu_seconds_total") - cpu) / calls
		q.trips = (g.sum("llmgov_store_round_trips_total") - trips) / calls
	})
	return q
}
