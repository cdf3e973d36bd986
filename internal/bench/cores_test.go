package main

import (
	"strings"
	"testing"
)

// A lock lets no more cores work than its part goes into a call, and few wait before.
func TestCoresUsed(t *testing.T) {
	for _, c := range []struct {
		cores       int
		locked      float64
		least, most float64
	}{
		{1, 0.5, 0.99, 1.01},
		{4, 0.01, 3.95, 4.01},
		{8, 0.09, 7, 8},
		{64, 0.09, 11, 1.01 / 0.09},
		{64, 0.25, 3.9, 1.01 / 0.25},
	} {
		if got := coresUsed(c.cores, c.locked); got < c.least || got > c.most {
			t.Errorf("of %d cores %.2f are used with %.0f %% under the lock, want %.2f to %.2f", c.cores, got, 100*c.locked, c.least, c.most)
		}
	}
}

func TestWriteCores_NamesABadPart(t *testing.T) {
	for _, parts := range []string{"", "nine", "0", "100", "9,"} {
		err := writeCores(new(strings.Builder), parts)
		if err == nil || !strings.Contains(err.Error(), "-lock") {
			t.Errorf("%q: %v", parts, err)
		}
	}
}
