package runner

import (
	"testing"

	"github.com/llmgov/llmgov/federation/parts"
)

// TestLimits_EarlierRelease: beside a gateway of the first format, nothing is told of accounts that may be lost.
func TestLimits_EarlierRelease(t *testing.T) {
	for format, want := range map[int]int64{0: 7, 1: 0, 2: 7, 3: 7} {
		r := NewLimits(LimitsConfig{Format: func() int { return format }})
		b := &parts.Beat{Known: 7}
		r.withhold(b)
		if b.Known != want {
			t.Errorf("format %d: epoch %d is told, want %d", format, b.Known, want)
		}
	}
}
