// Package leaktest fails packages whose tests leave goroutines behind.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is for goroutines that have been told to end. A busy machine lets them wait longer than goleak does.
const patience = 30 * time.Second

// Main runs the tests of a package, waits for the goroutines that they started, and fails if some are left.
func Main(m *testing.M) { goleak.VerifyTestMain(waiting{m}) }

type waiting struct{ tests goleak.TestingM }

func (w waiting) Run() int {
	code := w.tests.Run()
	if code != 0 {
		return code
	}
	for until := time.Now().Add(patience); goleak.Find() != nil && time.Now().Before(until); {
		continue // Find itself sleeps between its looks
	}
	return code
}
