package testkit

import (
	"runtime"
	"sync"
	"testing"
)

var kept []byte

// Whatever is allocated counts, and what a pool has kept does not, although collections are due.
func TestAllocated(t *testing.T) {
	processors := runtime.GOMAXPROCS(0) // a setting or a quota may allow fewer than the machine has
	pool := sync.Pool{New: func() any { return new([64 << 10]byte) }}
	got := Allocated(t, 10_000, func() {
		piece := pool.Get()
		kept = make([]byte, 1<<10)
		pool.Put(piece)
	})
	if got != (Spent{1, 1 << 10}) {
		t.Errorf("%+v", got)
	}
	if n := Allocs(t, 10_000, func() { kept = make([]byte, 1<<10); pool.Put(pool.Get()) }); n != 1 {
		t.Errorf("%d objects", n)
	}
	if runtime.GOMAXPROCS(0) != processors {
		t.Error("the processors are not given back")
	}
}
