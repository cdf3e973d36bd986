package simulate

import (
	"testing"
	"time"
)

// A node that is cut off collects no callers: it refuses them, also those that wait, and they go to another
// node. Before, all 64 workers of a tenant waited there until it was back, and others had their share.
func TestNodes_CutOffCollectsNoCallers(t *testing.T) {
	t.Parallel()
	const begins, lasts = 60 * time.Second, 60 * time.Second
	scenario := `
duration: 3m
warmup: 60s
nodes: {a: 1ms, b: 1ms, c: 1ms}
pool: {tpm: 6000000}
service: 200ms
patience: 40s
tenants:
  - {name: workers, load: {kind: backlogged, workers: 64}}
  - {name: open, load: {kind: open, tokens_per_second: 60000}}
events:
  - {at: 60s, partition: b, for: 60s}
`
	w := worldOf(t, scenario)
	for _, e := range w.trace.Events {
		r := &w.trace.Requests[e.Request]
		if e.Kind == Admitted && e.At > begins+5*time.Second && e.At < begins+lasts && w.Nodes[r.Node].Name == "b" {
			t.Fatalf("request %d ran at the node that was cut off, at %v", e.Request, e.At)
		}
	}
	f := play(t, scenario).Figures
	if f.MisallocationMax > 0.03 {
		t.Errorf("in the worst minute %.4f went to others than it should", f.MisallocationMax)
	}
}
