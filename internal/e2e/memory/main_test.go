// Package memory tests how much memory calls hold in the gateway's process, and that it goes back.
//
// Clients and upstreams are bare connections in the same process, without goroutines or buffers of their own: all
// that a call adds to the process is the gateway's.
package memory

import (
	"runtime"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// holding is what the process holds after a collection of garbage.
type holding struct {
	bytes      int // of heap and stacks
	goroutines int
}

func measure() holding {
	for range 5 { // each collection halves stacks that are larger than needed; two empty pools
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return holding{bytes: int(m.HeapAlloc + m.StackInuse), goroutines: runtime.NumGoroutine()}
}

// settled waits until no goroutine has ended for a while, and measures then. It is no more than a beginning: where some end
// later, they let a test bear too much, and fail none.
func settled() holding {
	for before := 0; before != runtime.NumGoroutine(); {
		before = runtime.NumGoroutine()
		time.Sleep(20 * time.Millisecond)
	}
	return measure()
}

// since waits until the process holds at most so much more than before: on a busy machine, what is over is still ending for
// a while. It returns how much more that is, also if it stays more.
func (before holding) since(most holding) (more holding) {
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		now := measure()
		more = holding{bytes: now.bytes - before.bytes, goroutines: now.goroutines - before.goroutines}
		if more.bytes <= most.bytes && more.goroutines <= most.goroutines || time.Now().After(until) {
			return more
		}
	}
}

// patience is how long something may go on that is over.
const patience = 20 * time.Second

// newStack starts a gateway whose limits no test reaches.
func newStack(t *testing.T, up *upstream, kept *objects.Store, names ...string) *sockets.Stack {
	t.Helper()
	var list []tenants.Tenant
	for _, name := range names {
		list = append(list, sockets.Tenant(name, func(t *tenants.Tenant) {
			t.TPM = 0
			t.RPM = 0
			t.Concurrency = 0
		}))
	}
	pool := sockets.Pool(func(p *tenants.Pool) {
		p.TPM = 1_000_000_000
		p.RPM = 1_000_000
		p.Concurrency = 0
	})
	return sockets.New(t, sockets.World{BaseURL: up.url + "/v1", TLS: up.trust, Pool: pool, Tenants: list, Objects: kept})
}
