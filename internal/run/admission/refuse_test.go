package admission

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// A caller that is blocked is told when that ends, if anybody knows, and that it is no use to come back before.
func TestBlocked_SaysUntilWhen(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	until := now.Add(90 * time.Minute)
	member := func(l tenants.MemberLimits) *ask.Refusal {
		return Blocked(&tenants.Tenant{Name: "acme", Members: &tenants.Members{Each: l}}, "", now)
	}
	for name, c := range map[string]struct {
		said *ask.Refusal
		want time.Duration
	}{
		"a tenant":                {Overridden(&tenants.Tenant{Blocked: &tenants.Override{Tenant: "acme", Until: &until}}, now), 90 * time.Minute},
		"a tenant without an end": {Overridden(&tenants.Tenant{Blocked: &tenants.Override{Tenant: "acme"}}, now), 0},
		"a member":                {member(tenants.MemberLimits{Blocked: "rpm", Until: until}), 90 * time.Minute},
		"a member without an end": {member(tenants.MemberLimits{Blocked: "rpm"}), 0},
	} {
		if c.said == nil || c.said.RetryAfter != c.want || !c.said.Final {
			t.Errorf("%s: %+v, want to come back after %v", name, c.said, c.want)
		}
	}
}
