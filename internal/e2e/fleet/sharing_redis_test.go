package main

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// TestSharingRedis: three gateways use a limit that they share through Redis once. A restart of it is a
// loss of memory, which they make up for, though none of them has run for a minute.
func TestSharingRedis(t *testing.T) {
	testkit.Long(t, "compares gateways in real time")
	t.Parallel()
	server := redistest.New(t)
	f := newFleet(t, 3, "p", "tpm", sharedLimit, server.URL())
	const d = 6 * time.Second
	f.flood(f.gateways, d)
	served := f.served.Load()
	limit := int64(sharedLimit / 490 * d / time.Minute)
	t.Logf("in %v three gateways were served %d calls, of %d", d, served, limit)
	if served < limit*70/100 || served > limit*140/100 {
		t.Errorf("in %v three gateways were served %d calls, of %d", d, served, limit)
	}
	before := f.snapshot(f.gateways[0])
	if before == nil || before.Status != "granted" || len(before.Nodes) != 3 {
		t.Errorf("the snapshot shows %+v", before)
	}
	server.Stop()
	server.Start()
	redistest.Eventually(t, "the new store grants", func() bool {
		now := f.snapshot(f.gateways[0])
		return now.Status == "granted" && now.Epoch > before.Epoch
	})
	f.flood(f.gateways, d)
	if more := f.served.Load() - served; more < limit/2 {
		t.Errorf("in %v after the loss three gateways were served %d calls, of %d", d, more, limit)
	}
	if st := statsOf(t, f.mock); st.Refused != 0 {
		t.Errorf("the provider refused %d of %d", st.Refused, st.Admitted)
	}
}
