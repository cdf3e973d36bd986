package admin

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// processView describes this process, which began at started.
func processView(started, now time.Time) adminapi.Process {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	p := adminapi.Process{
		StartedAt:     started.UTC(),
		UptimeSeconds: now.Sub(started).Seconds(),
		MemoryBytes:   int64(samples[0].Value.Uint64() - samples[1].Value.Uint64()),
		CPUs:          runtime.GOMAXPROCS(0),
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 { // a negative limit only reads it
		p.MemoryLimitBytes = &limit
	}
	return p
}
