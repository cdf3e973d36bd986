package leaktest

import (
	"sync/atomic"
	"testing"
	"time"
)

// late stands for tests that leave a goroutine, which ends later than goleak alone waits for it.
type late struct{ ended atomic.Bool }

func (l *late) Run() int {
	go func() {
		time.Sleep(time.Second)
		l.ended.Store(true)
	}()
	return 0
}

func TestRun_WaitsForGoroutines(t *testing.T) {
	var l late
	if code := (waiting{&l}).Run(); code != 0 || !l.ended.Load() {
		t.Errorf("exit code %d, and the goroutine has ended: %t", code, l.ended.Load())
	}
}
