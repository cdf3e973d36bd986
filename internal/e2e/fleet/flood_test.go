package fleet

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit/pgtest"
)

// TestSameFlood: the same flood is served as much by one gateway as by two, four or eight
// that share the limit, whether that is of tokens or of requests. It takes more than two
// minutes, so that two whole ones are compared, and 30 processes: make chaos.
func TestSameFlood(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes minutes; make chaos")
	}
	for _, axis := range []string{"tpm", "rpm"} {
		t.Run(axis, func(t *testing.T) {
			limit := map[string]int{"tpm": sharedLimit, "rpm": 1200}[axis]
			server := pgtest.New(t)
			counts := []int{1, 2, 4, 8}
			var fleets []*flooded
			for _, n := range counts {
				model := map[string]mock.Config{"tpm": {TPM: sharedLimit}, "rpm": {RPM: 1200}}[axis]
				fleets = append(fleets, newFlooded(t, n, fmt.Sprintf("p%d", n), fmt.Sprintf("%s: %d", axis, limit), model, server.URL()))
			}
			var floods sync.WaitGroup
			for _, f := range fleets {
				floods.Go(func() { f.flood(f.gateways, 130*time.Second) })
			}
			floods.Wait()
			one := fleets[0].served.Load()
			for i, f := range fleets {
				st := f.model.Stats()
				t.Logf("%d gateways with %s: %d were served %d calls: %.4f of what one was; the provider refused %d",
					counts[i], axis, limit, f.served.Load(), float64(f.served.Load())/float64(one), st.Refused)
				if d := f.served.Load() - one; d > one/100 || d < -one/100 {
					t.Errorf("%d gateways were served %d, and one %d", counts[i], f.served.Load(), one)
				}
				if st.Refused > 0 {
					t.Errorf("the provider of %d gateways refused %d", counts[i], st.Refused)
				}
			}
		})
	}
}
