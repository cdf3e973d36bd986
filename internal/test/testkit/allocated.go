package testkit

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// Spent is memory that was allocated.
type Spent struct{ Objects, Bytes uint64 }

// Allocated returns the memory that a run of f allocates once it has run before: the mean of a tenth of so many runs, rounded down,
// so that the few objects of the runtime count for nothing, and the least of ten, because timers and other goroutines allocate as
// well, more of them beside load. No garbage is collected meanwhile, because that empties pools. Under the race detector it skips t.
func Allocated(t testing.TB, runs uint64, f func()) Spent {
	t.Helper()
	if Race {
		t.Skip("the race detector allocates, and lets pools forget")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // because each processor has pools of its own
	f()
	least := Spent{math.MaxUint64, math.MaxUint64}
	var before, after runtime.MemStats
	parts := min(runs, 10)
	runs /= parts
	for range parts {
		runtime.ReadMemStats(&before)
		for range runs {
			f()
		}
		runtime.ReadMemStats(&after)
		least.Objects = min(least.Objects, (after.Mallocs-before.Mallocs)/runs)
		least.Bytes = min(least.Bytes, (after.TotalAlloc-before.TotalAlloc)/runs)
	}
	return least
}

// Allocs returns how many objects a run of f allocates: see Allocated.
func Allocs(t testing.TB, runs uint64, f func()) uint64 {
	t.Helper()
	return Allocated(t, runs, f).Objects
}
