package runner

import (
	"testing"
	"time"
)

// TestFormats: a lower format is believed at once, and a higher one when it has been heard for a Window.
func TestFormats(t *testing.T) {
	began := time.Now()
	var f formats
	for _, step := range []struct {
		second        int
		heard, expect int
	}{
		{0, 0, 0},  // a refusal names none
		{1, 2, 2},  // the first is believed
		{2, 1, 1},  // a node of the release before joins
		{3, 2, 1},  // a store that has lost its data
		{50, 1, 1}, // the node is there again
		{60, 2, 1},
		{110, 2, 1},
		{111, 2, 2}, // it is gone
		{112, 3, 2},
	} {
		f.hear(began.Add(time.Duration(step.second)*time.Second), step.heard, time.Minute)
		if f.lowest != step.expect {
			t.Errorf("after %d s and %d it is %d, want %d", step.second, step.heard, f.lowest, step.expect)
		}
	}
}
