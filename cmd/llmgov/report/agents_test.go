package report

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// Agents that call Anthropic's models need to wait, and more tokens a minute than one call declares.
func TestNotes_Agents(t *testing.T) {
	const whole = "tpm 60,000 lets a coding agent call pool m once a minute"
	for name, tt := range map[string]struct {
		tenant tenants.Tenant
		kind   string
		want   string // texts of the notes, in order
	}{
		"waits, no limit":          {tenants.Tenant{MaxWait: time.Minute}, tenants.Anthropic, ""},
		"waits, small":             {tenants.Tenant{MaxWait: time.Minute, TPM: 60_000}, tenants.Anthropic, "tenant a: " + whole},
		"waits, small, in a tier":  {tenants.Tenant{MaxWait: time.Minute, TPM: 60_000, Tier: "pro"}, tenants.Anthropic, "tier pro: " + whole},
		"waits, small of output":   {tenants.Tenant{MaxWait: time.Minute, OTPM: 30_000}, tenants.Anthropic, "tenant a: otpm 30,000"},
		"waits, large":             {tenants.Tenant{MaxWait: time.Minute, TPM: 100_000}, tenants.Anthropic, ""},
		"waits, small, but cut":    {tenants.Tenant{MaxWait: time.Minute, TPM: 60_000, MaxOutputTokens: 8000}, tenants.Anthropic, ""},
		"waits, small of input":    {tenants.Tenant{MaxWait: time.Minute, ITPM: 60_000}, tenants.Anthropic, ""},
		"does not wait":            {tenants.Tenant{}, tenants.Anthropic, "tenant a: has no max_wait"},
		"does neither, elsewhere":  {tenants.Tenant{TPM: 60_000}, tenants.OpenAI, ""},
		"does not wait, in a tier": {tenants.Tenant{Tier: "agents"}, tenants.Anthropic, "tier agents: has no max_wait"},
	} {
		cfg := tenants.DefaultConfig()
		cfg.Upstreams = []tenants.Upstream{{Name: "o", BaseURL: "http://o", Kind: tt.kind}}
		pool := tenants.DefaultPool("m", "m")
		pool.RPM = 1
		cfg.Pools = []tenants.Pool{pool}
		tt.tenant.Name = "a"
		tt.tenant.Keys = []tenants.Key{{Hash: tenants.HashKey("a")}}
		b := tt.tenant
		b.Name = "b"
		b.Tier = "other"
		b.MaxWait = time.Minute
		b.TPM = 0
		b.OTPM = 0
		b.Keys = []tenants.Key{{Hash: tenants.HashKey("b")}}
		snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{tt.tenant, b}))(t)
		notes := New("c", snap, time.Now()).Notes
		got := strings.Join(notes, "\n")
		if tt.want == "" && strings.Contains(got, "agent") || !strings.Contains(got, tt.want) || strings.Count(got, "agent") > 2 {
			t.Errorf("%s: %q, want %q", name, notes, tt.want)
		}
	}
}
