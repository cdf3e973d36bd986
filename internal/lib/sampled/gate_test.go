package sampled

import (
	"testing"
	"time"
)

func TestGate(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	g := Gate{Every: time.Second, Most: 2}
	for i, step := range []struct {
		after   time.Duration
		skipped int64
		ok      bool
	}{
		{0, 0, true},
		{0, 0, true},
		{0, 0, false},
		{999 * time.Millisecond, 0, false},
		{time.Second, 2, true},
		{time.Second, 0, true},
		{time.Second, 0, false},
		{time.Hour, 1, true},
	} {
		if skipped, ok := g.Pass(noon.Add(step.after)); skipped != step.skipped || ok != step.ok {
			t.Errorf("step %d: %d %v, want %d %v", i, skipped, ok, step.skipped, step.ok)
		}
	}
}
