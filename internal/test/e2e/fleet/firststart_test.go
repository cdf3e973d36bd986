package fleet

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// TestFirstStart: the first call after the start of a gateway with a new store is served, slots included, if the gateway expects no other or
// the pool was declared new. Else the caller, the console's API and who looks at the start are told why not.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			head := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nnode: n0\nstore: \"" + start(t) + "\"\npolicies: [tenants.yaml]\n" +
				"upstreams: {mock: {base_url: " + processtest.NewProvider(t, mock.Config{}).URL + "}}\n" +
				"pools:\n  declared: {models: [declared], tpm: 600000, concurrency: 8}\n"
			processtest.Write(t, dir, map[string]string{
				"tenants.yaml": "tenants: {acme: {max_wait: 2s, keys: [" + tenants.HashKey("key").String() + "]}}\n",
				"some.yaml":    head,
				"all.yaml": head + `  expected: {models: [expected], tpm: 600000, concurrency: 8, expect_nodes: 1}
  adaptive: {models: [adaptive], concurrency: {max: 8, adaptive: gradient}, expect_nodes: 1}
  waits: {models: [waits], tpm: 600000}
`,
			})
			declare := processtest.Command{Args: []string{"store", "new", "-c", dir + "/some.yaml"}}
			declare.Start(t).EndsWith(t, 0)
			p := processtest.Start(t, dir, "all.yaml")
			chat := func(model string) processtest.Answer {
				t.Helper()
				body := strings.Replace(processtest.Chat(`"max_tokens":5`), `"model":"m"`, `"model":"`+model+`"`, 1)
				return processtest.Ask(t, http.MethodPost, p.Data+"/v1/chat/completions", "key", body)
			}
			for _, model := range []string{"declared", "expected", "adaptive"} {
				if a := chat(model); a.Status != http.StatusOK {
					t.Errorf("the first call of pool %s: %d %s", model, a.Status, a.Body)
				}
			}
			const why = "The store is new: it has no data of llmgov. Pool waits grants nothing for a minute"
			if a := chat("waits"); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, why) {
				t.Errorf("a call that has to wait: %d %s", a.Status, a.Body)
			}
			if said := p.Output(); !strings.Contains(said, why) || strings.Contains(said, "Pool declared") {
				t.Errorf("the start says %s", said)
			}
			for _, path := range []string{"/readyz", "/api/v1/snapshot"} {
				if a := processtest.Ask(t, http.MethodGet, p.Admin+path, "", ""); a.Status != http.StatusOK || !strings.Contains(a.Body, why) {
					t.Errorf("%s says %d %s", path, a.Status, a.Body)
				}
			}
			refused := declare.Start(t)
			refused.EndsWith(t, 1)
			if said := refused.Log(); !strings.Contains(said, "the store is in use: gateway n0 told of pool declared") {
				t.Errorf("beside a gateway the command says %s", said)
			}
		})
	}
}

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
