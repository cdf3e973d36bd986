package report

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/llmgov/llmgov/tenants"
)

// What coding agents declare and bear.
const (
	// agentDeclares is how many output tokens Claude Code declares in each call, and agentFills the limit on tokens a minute of which a
	// second such call finds too little.
	agentDeclares = 64_000
	agentFills    = 100_000
)

// agents notes where coding agents that call an Anthropic upstream of a pool would be refused again and again: each place once.
func (r *Policy) agents(snap *tenants.Snapshot, p *tenants.Pool, seen map[string]bool) {
	anthropic := func(u tenants.PoolUpstream) bool {
		return slices.ContainsFunc(snap.Config().Upstreams, func(o tenants.Upstream) bool { return o.Name == u.Name && o.Kind == tenants.Anthropic })
	}
	if !slices.ContainsFunc(p.Upstreams, anthropic) {
		return
	}
	for _, s := range snap.Shares(p) {
		t := s.Tenant
		of := "tenant " + t.Name
		if t.Tier != "" && t.Parent < 0 {
			of = "tier " + t.Tier
		}
		for _, l := range snap.Limits(t, p) {
			number, _ := l.Value.(json.Number)
			n, err := number.Int64()
			bounded := t.MaxOutputTokens > 0 && t.MaxOutputTokens < agentDeclares
			note := ""
			switch {
			case l.Of != "" || seen[of+l.Key]:
				continue
			case l.Key == "max_wait" && t.MaxWait == 0:
				note = fmt.Sprintf("%s: has no max_wait, so coding agents that call pool %s are refused for every short wait, at which some give up; write max_wait: 120s", of, p.Name)
			case err == nil && (l.Key == "tpm" || l.Key == "otpm") && n > p.DefaultMaxOutput && n < agentFills && !bounded:
				note = fmt.Sprintf("%s: %s %s lets a coding agent call pool %s once a minute, as each call declares %s output tokens; write itpm instead, or max_output_tokens",
					of, l.Key, grouped(fmt.Sprint(n)), p.Name, grouped(fmt.Sprint(agentDeclares)))
			default:
				continue
			}
			seen[of+l.Key] = true
			r.Notes = append(r.Notes, note)
		}
	}
}
