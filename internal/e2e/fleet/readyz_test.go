package fleet

import (
	"net/http"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// A gateway that alone is cut off from the store leaves the load balancer, and comes back; if the store is lost for
// all gateways, all stay.
func TestReadyz_CutOffAlone(t *testing.T) {
	testkit.Long(t, "waits for grants of real processes to expire")
	t.Parallel()
	config := chaosPool(processtest.NewProvider(t, mock.Config{}), "tpm: 60000, expect_nodes: 2")
	c := newScene(t, newRedisDisaster(t), 2, config, map[string]string{"a": "weight: 1"})
	ready := func(i int) int {
		return processtest.Ask(t, http.MethodGet, c.gateways[i].proc.Load().Admin+"/readyz", "", "").Status
	}
	status := func(i, want int) func() bool { return func() bool { return ready(i) == want } }
	time.Sleep(7 * time.Second) // until each has looked at the store, and knows where the other is
	c.ways[0].cut()
	redistest.Eventually(t, "a gateway that is not ready", status(0, http.StatusServiceUnavailable))
	if got := ready(1); got != http.StatusOK {
		t.Errorf("the other one answers %d", got)
	}
	c.ways[0].heal()
	redistest.Eventually(t, "both gateways being ready", status(0, http.StatusOK))
	for _, way := range c.ways {
		way.cut()
	}
	for range 16 {
		time.Sleep(500 * time.Millisecond)
		if ready(0) != http.StatusOK || ready(1) != http.StatusOK {
			t.Errorf("with the store lost for both they answer %d and %d", ready(0), ready(1))
		}
	}
}
