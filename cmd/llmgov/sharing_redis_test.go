package main

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// TestSharingRedis: what three gateways share through Redis they use once. A restart of it is a loss of
// memory, which each of them restores.
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
	redistest.Eventually(t, "the store is restored", func() bool {
		now := f.snapshot(f.gateways[0])
		return now.Status == "granted" && now.Epoch > before.Epoch
	})
	if st := statsOf(t, f.mock); st.Refused != 0 {
		t.Errorf("the provider refused %d of %d", st.Refused, st.Admitted)
	}
}
