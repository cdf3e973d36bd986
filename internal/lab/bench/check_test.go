package main

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

func TestCheckNamesRowsThatMissTheirAims(t *testing.T) {
	r := &result{Workloads: []figure{
		{Title: "kept", Ratio: spread{Median: 1.35, Max: 2}, Aim: 1.35},
		{Title: "without an aim", Ratio: spread{Median: 9}},
	}}
	if err := r.check(); err != nil {
		t.Errorf("all aims are kept: %v", err)
	}
	r.Workloads = append(r.Workloads, figure{Title: "missed", Ratio: spread{Median: 1.51}, Aim: 1.5})
	r.Latency = []latency{
		{Title: "stream", FirstByte: delay{P50: added{Ratio: &spread{Median: 1.4}}}, Aim: 1.3},
		{Title: "stream without an aim", FirstByte: delay{P50: added{Ratio: &spread{Median: 9}}}},
	}
	err := r.check()
	if err == nil || !strings.Contains(err.Error(), "missed: 1.51, not ≤ 1.50") || !strings.Contains(err.Error(), "first byte of a stream: 1.40") || strings.Contains(err.Error(), "kept") || strings.Contains(err.Error(), "without an aim") {
		t.Errorf("got %v, want the two rows that miss their aims", err)
	}
}

// Doors have aims of their own. A first byte that the machine was too busy to tell from noise has not kept its aim.
//
// Seen to fail with: no look at doors, and none at a missing ratio.
func TestCheckSeesDoorsAndNoise(t *testing.T) {
	r := &result{Doors: []doorFigure{
		{Title: "kept", Ratio: spread{Median: 2}, Aim: 2},
		{Title: "missed", Ratio: spread{Median: 3.1}, Aim: 3},
		{Title: "without an aim", Ratio: spread{Median: 9}},
	}, Latency: []latency{{Title: "stream", Aim: 1.3}, {Title: "stream without an aim"}}}
	err := r.check()
	if err == nil || strings.Contains(err.Error(), "kept") || strings.Contains(err.Error(), "without an aim") ||
		!strings.Contains(err.Error(), "missed, of a bare proxy's: 3.10") || !strings.Contains(err.Error(), "first byte of a stream: the machine") {
		t.Errorf("got %v, want the door that misses its aim, and the first byte", err)
	}
}

// With a store, all rows with an aim have the same one, but for first bytes.
func TestSharedAims(t *testing.T) {
	r := &result{
		Workloads: []figure{{Title: "with", Ratio: spread{Median: sharedAim + 0.1}, Aim: 1.35}, {Title: "without", Ratio: spread{Median: 9}}},
		Latency:   []latency{{Title: "stream", Aim: 1.3}},
		Doors:     []doorFigure{{Title: "door", Ratio: spread{Median: sharedAim - 0.1}, Aim: 2}},
	}
	r.shareAims()
	err := r.check()
	if err == nil || !strings.Contains(err.Error(), "with: 3.10") || strings.Contains(err.Error(), "without") || strings.Contains(err.Error(), "stream") || strings.Contains(err.Error(), "door") {
		t.Errorf("got %v, want the row with an aim", err)
	}
}

// A program opens the stores that it links and no others. Without the import of redis.go, -redis ended after its first line.
func TestBenchLinksTheStoreThatItStarts(t *testing.T) {
	if err := store.Check("redis://127.0.0.1:6379"); err != nil {
		t.Error(err)
	}
}

func TestBodiesHaveTheirSizes(t *testing.T) {
	for name, want := range map[string]int{"short": 400, "8k": 8_000, "100k": 100_000, "100k-markdown": 100_000, "400k": 400_000} {
		chosen := testkit.Must(choose(name))(t)
		if n := len(chosen.workloads[0].body); n < want*9/10 || n > want*12/10 {
			t.Errorf("%s: %d bytes, want about %d", name, n, want)
		}
	}
}
