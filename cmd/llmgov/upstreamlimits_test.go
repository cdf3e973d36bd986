package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// Three gateways share two providers with limits of their own through Redis. Neither ever refuses a call, what is provisioned is
// used before what is on demand, and if one is lost, calls go on at the other.
func TestUpstreamLimits_Redis(t *testing.T) {
	testkit.Long(t, "fills a limit in real time")
	t.Parallel()
	server := redistest.New(t)
	f := newFleet(t, 0, "p", "tpm", sharedLimit, "memory") // for its tenants
	provisioned := startMock(t, "--tpm=30000", "--output-tokens=480")
	onDemand := startMock(t, "--tpm=120000", "--output-tokens=480")
	config := fmt.Sprintf(`upstreams: {ptu: {base_url: %q}, paid: {base_url: %q}}
pools:
  p:
    models: ["*"]
    upstreams: [{name: ptu, tpm: 30000}, {name: paid, tpm: 120000, order: 1}]
    max_queue: 100
    expect_nodes: 3
store: %q
`, provisioned+"/v1", onDemand+"/v1", server.URL())
	if err := os.WriteFile(filepath.Join(f.dir, "llmgov.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	f.gateways = make([]*process, 3)
	var starting sync.WaitGroup
	for i := range f.gateways {
		starting.Go(func() { f.gateways[i] = f.start(i) })
	}
	starting.Wait()
	var first, spare mockStats
	// The pool lets 2,500 tokens go in a second. If they went to both by their limits, it would take 54 s.
	took := f.floodUntil(f.gateways, 45*time.Second, func() bool {
		first = statsOf(t, provisioned)
		spare = statsOf(t, onDemand)
		return first.WindowTokensPeak >= 27_000 && spare.Admitted > 0
	})
	t.Logf("of 30,000 and 120,000 tokens a minute %d and %d were used in %v", first.WindowTokensPeak, spare.WindowTokensPeak, took)
	if first.Refused+spare.Refused > 0 {
		t.Errorf("%d and %d calls were refused", first.Refused, spare.Refused)
	}
	if first.WindowTokensPeak < 27_000 || spare.Admitted == 0 || spare.WindowTokensPeak > 2*first.WindowTokensPeak {
		t.Error("what is provisioned was not used before what is on demand, or nothing beyond it")
	}
	f.gateways[0].kill()
	f.flood(f.gateways[1:], 5*time.Second)
	if after := statsOf(t, onDemand); after.Refused > 0 || after.Admitted == spare.Admitted {
		t.Errorf("after one gateway died %d calls were refused, %d let in, as many as before", after.Refused, after.Admitted)
	}
	text := strings.Replace(config, provisioned, "http://127.0.0.1:1", 1) // it is lost
	if err := os.WriteFile(filepath.Join(f.dir, "llmgov.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	before := statsOf(t, onDemand)
	f.flood(f.gateways[1:], 5*time.Second)
	if after := statsOf(t, onDemand); after.Refused > 0 || after.Admitted == before.Admitted {
		t.Errorf("without what is provisioned %d calls were refused, %d let in, as many as before", after.Refused, after.Admitted)
	}
	if last := statsOf(t, provisioned); last.Refused > 0 {
		t.Errorf("what is provisioned refused %d calls", last.Refused)
	}
}
