package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/tenants"
)

// TestNotes_Keys notes what has expired and what soon will, in the config's zone, and nothing else.
func TestNotes_Keys(t *testing.T) {
	now := time.Date(2026, 12, 20, 0, 0, 0, 0, time.UTC)
	key := func(name string, days int) tenants.Key {
		return tenants.Key{Hash: tenants.HashKey(name), Name: name, Expires: now.AddDate(0, 0, days)}
	}
	cfg := tenants.DefaultConfig()
	cfg.Timezone = "Asia/Tokyo"
	cfg.Upstreams = []tenants.Upstream{{Name: "o", BaseURL: "http://o"}}
	pool := tenants.DefaultPool("m", "m")
	pool.RPM = 1
	cfg.Pools = []tenants.Pool{pool}
	unnamed := key("", 1)
	snap, err := tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Keys: []tenants.Key{
		key("old", -1), key("now", 0), key("soon", 30), key("later", 31), unnamed, {Hash: tenants.HashKey("never")},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &report{}
	r.keys(snap, now)
	want := []string{
		"tenant acme: key old expired at 2026-12-19T09:00:00+09:00; remove it",
		"tenant acme: key now expired at 2026-12-20T09:00:00+09:00; remove it",
		"tenant acme: key soon expires at 2027-01-19T09:00:00+09:00; make another with llmgov keys new",
		"tenant acme: key " + unnamed.Hash.String()[:15] + "… expires at 2026-12-21T09:00:00+09:00; make another with llmgov keys new",
	}
	if diff := cmp.Diff(want, r.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
