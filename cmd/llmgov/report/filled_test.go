package report

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/tenants"
)

// TestCheck_LimitsThatOneCallFills: a limit that a call without max_tokens fills is noted once, with its place, however many have it.
func TestCheck_LimitsThatOneCallFills(t *testing.T) {
	key := func(name string) string { return tenants.HashKey(name).String() }
	for what, c := range map[string]struct {
		pool, policy string
		want         []string // how each note begins
	}{
		"a tier's": {
			"tpm: 300000", "tiers: {free: {tpm: 4000}}\ntenants: {a: {tier: free, keys: [" + key("a") + "]}, b: {tier: free, keys: [" + key("b") + "]}}",
			[]string{"tenants/a.yaml:1: tpm 4,000 is filled by one call without max_tokens, which is held at 4,096 (default_max_output of pool a)"},
		},
		"with room":             {"tpm: 300000", "tenants: {a: {tpm: 4097, keys: [" + key("a") + "]}}", nil},
		"bounded answers":       {"tpm: 300000", "tenants: {a: {tpm: 4000, max_output_tokens: 1024, keys: [" + key("a") + "]}}", nil},
		"of prompts":            {"tpm: 300000", "tenants: {a: {itpm: 4000, keys: [" + key("a") + "]}}", nil},
		"bounded, and less":     {"tpm: 300000", "tenants: {a: {otpm: 1024, max_output_tokens: 1024, keys: [" + key("a") + "]}}", []string{"tenants/a.yaml:1: otpm 1,024 is filled by one call without max_tokens, which is held at 1,024"}},
		"the pool's default":    {"tpm: 300000, default_max_output: 500", "tenants: {a: {tpm: 4000, keys: [" + key("a") + "]}}", nil},
		"the pool":              {"tpm: 4096", "tenants: {a: {keys: [" + key("a") + "]}}", []string{"llmgov.yaml:2: tpm 4,096"}},
		"a department and team": {"tpm: 300000", "tenants: {a: {tpm: 200, keys: [], teams: {x: {keys: [" + key("a") + "]}}}}", []string{"tenants/a.yaml:1: tpm 200"}},
		"in one pool":           {"tpm: 300000", "tenants: {a: {pools: {a: {tpm: 200}}, keys: [" + key("a") + "]}}", []string{"tenants/a.yaml:1: tpm 200"}},
		"over an hour":          {"tpm: 300000", "tenants: {a: {limits: [{tokens: 4000, per: 1h}], keys: [" + key("a") + "]}}", []string{"tenants/a.yaml:1: tokens 4,000"}},
		"a budget":              {"tpm: 300000", "tenants: {a: {budgets: [{tokens: 4000, per: day}], keys: [" + key("a") + "]}}", []string{"tenants/a.yaml:1: tokens 4,000"}},
	} {
		r := reportOf(t, oneUpstream+"pools: {a: {models: [a], "+c.pool+"}}\n", c.policy+"\n")
		var got []string
		for _, n := range r.Notes {
			if strings.Contains(n, "is filled by") {
				got = append(got, n)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: notes %q, want %q", what, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: note %q, want %q", what, got[i], want)
			}
		}
	}
}
