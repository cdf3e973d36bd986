package main

import (
	"strings"
	"testing"
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

func TestBodiesHaveTheirSizes(t *testing.T) {
	for name, want := range map[string]int{"short": 400, "8k": 8_000, "100k": 100_000, "100k-markdown": 100_000, "400k": 400_000} {
		chosen, err := choose(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(chosen.workloads[0].body); n < want*9/10 || n > want*12/10 {
			t.Errorf("%s: %d bytes, want about %d", name, n, want)
		}
	}
}
