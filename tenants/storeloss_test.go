package tenants

import (
	"cmp"
	"testing"
)

// TestStoreLoss: what a file says of a store, and of its loss, is what the pool has, and is part of
// the policy's hash.
func TestStoreLoss(t *testing.T) {
	hashes := map[string]string{}
	for text, want := range map[string]Pool{
		"":                                       {},
		", on_store_loss: open":                  {StoreLoss: StoreLoss{Rule: StoreLossOpen}},
		", on_store_loss: {local: 0.125}":        {StoreLoss: StoreLoss{StoreLossLocal, 125_000}},
		", on_store_loss: {local: 0.5}":          {StoreLoss: StoreLoss{StoreLossLocal, 500_000}},
		", on_store_loss: open, expect_nodes: 7": {StoreLoss: StoreLoss{Rule: StoreLossOpen}, ExpectNodes: 7},
		", tenant_limits: strict":                {TenantLimits: LimitsStrict},
		", tenant_limits: cached_deny":           {TenantLimits: LimitsCachedDeny},
	} {
		s, err := loadSections(map[string]string{"llmgov.yaml": "upstreams: {u: {base_url: \"http://h\"}}\npools: {main: {models: [gpt-4o], tpm: 1000" + text + "}}\nstore: redis://h:6379\n"})
		if err != nil {
			t.Fatal(err)
		}
		p := s.Pools()[0]
		if p.StoreLoss != want.StoreLoss || p.ExpectNodes != want.ExpectNodes || p.TenantLimits != cmp.Or(want.TenantLimits, LimitsLeased) {
			t.Errorf("%q is %+v, %d nodes, %s", text, p.StoreLoss, p.ExpectNodes, p.TenantLimits)
		}
		if other, taken := hashes[s.Hash()]; taken {
			t.Errorf("%q and %q have one hash", text, other)
		}
		hashes[s.Hash()] = text
	}
	for _, bad := range []StoreLoss{{LocalPPM: 1}, {Rule: "x"}, {Rule: StoreLossLocal}, {Rule: StoreLossOpen, LocalPPM: 5000}, {StoreLossLocal, 900_001}} {
		if bad.complain() == "" {
			t.Errorf("%+v is good", bad)
		}
	}
	if complaint := limitsModes.check("x"); complaint == "" {
		t.Error("there is a way x to keep limits together")
	}
}
