package governor

import (
	"testing"
	"time"
)

// BenchmarkColdCall is a short call of one of 1000 tenants that have a limit on every axis. Between calls other memory is written to,
// as a gateway would, so that little of the tenant is in the processor's cache. It reports the time of the verbs alone.
func BenchmarkColdCall(b *testing.B) {
	cfg := thousandConfig()
	cfg.Observer = idleObserver{}
	names := make([]string, len(cfg.Tenants))
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		t.Tier = "bench"
		t.ITPM = 1e9
		t.OTPM = 1e9
		names[i] = t.Name
	}
	g := must(b, cfg)
	ctx := b.Context()
	other := make([]byte, 1<<20)
	var acquire, standing, settle time.Duration
	call := func(i int) {
		for k := 0; k < len(other); k += 64 {
			other[k]++
		}
		began := time.Now()
		l, rej := g.Acquire(ctx, Request{Tenant: names[i%len(names)], Pool: "p", Model: "gpt-4o-mini", Input: 60, Output: 512})
		admitted := time.Now()
		if rej != nil {
			b.Fatal(rej)
		}
		g.Standing(names[i%len(names)], "p")
		stood := time.Now()
		l.Settle(Usage{Input: 60, Output: 20})
		acquire += admitted.Sub(began)
		standing += stood.Sub(admitted)
		settle += time.Since(stood)
	}
	for i := range 30 * len(names) {
		call(i)
	}
	acquire = 0
	standing = 0
	settle = 0
	n := 0
	for b.Loop() {
		call(n)
		n++
	}
	for verb, took := range map[string]time.Duration{"acquire": acquire, "standing": standing, "settle": settle, "all": acquire + standing + settle} {
		b.ReportMetric(float64(took.Nanoseconds())/float64(n), verb+"-ns/op")
	}
}
