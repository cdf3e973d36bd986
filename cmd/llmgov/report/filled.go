package report

import (
	"fmt"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

// filled notes limits on tokens that one call without max_tokens fills, each once, by its place.
func (r *Policy) filled(snap *tenants.Snapshot, p *tenants.Pool, seen map[string]bool) {
	r.filledOf(snap.PoolLimits(p), p.DefaultMaxOutput, p, seen)
	for _, s := range snap.Shares(p) {
		held := p.DefaultMaxOutput
		if most := s.Tenant.MaxOutputTokens; most > 0 {
			held = min(held, most)
		}
		r.filledOf(snap.Limits(s.Tenant, p), held, p, seen)
	}
}

func (r *Policy) filledOf(limits []tenants.Limit, held int64, p *tenants.Pool, seen map[string]bool) {
	for _, l := range limits {
		n, key, ok := ofTokens(l)
		if !ok || n > held || l.Of != "" || l.From == "" || seen[l.From] {
			continue
		}
		seen[l.From] = true
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %s %s is filled by one call without max_tokens, which is held at %s (default_max_output of pool %s) while answers of its kind are unknown, "+
			"so such calls go one at a time; raise it, or lower default_max_output or max_output_tokens",
			line(l.From), key, grouped(fmt.Sprint(n)), grouped(fmt.Sprint(held)), p.Name))
	}
}

// ofTokens is a limit on the tokens of answers: per minute, over another time, or a budget.
func ofTokens(l tenants.Limit) (n int64, key string, ok bool) {
	key = l.Key[strings.LastIndexByte(l.Key, '.')+1:]
	if key == "tpm" || key == "otpm" {
		_, err := fmt.Sscan(fmt.Sprint(l.Value), &n)
		return n, key, err == nil
	}
	_, err := fmt.Sscanf(fmt.Sprint(l.Value), "%d tokens per", &n)
	return n, "tokens", err == nil
}
