package sharing

import (
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
)

// claimOf is the claim for a demand, and for so much in advance.
func claimOf(d *limits.Demand, ahead int64) parts.Claim {
	c := parts.Claim{Name: d.Name, Kind: parts.Rolling, Limit: d.Limit, Used: d.Used, Held: d.Held, Need: d.Need}
	switch {
	case d.Axis == limits.Concurrency:
		c.Kind = parts.Slots
	case !d.Ends.IsZero():
		c.Kind = parts.Period
		c.Ends = d.Ends.UnixMilli()
	case d.Length != parts.Window:
		c.Tail = d.Length.Milliseconds()
	}
	c.Want = min(d.Limit, max(d.Used+d.Waiting+ahead, d.Need))
	return c
}

// grantsOf are the grants in the answers to the claims for demands.
func grantsOf(claimed []limits.Demand, list []parts.Part) []governor.Grant {
	list = list[:min(len(list), len(claimed))]
	grants := make([]governor.Grant, len(list))
	for i, p := range list {
		grants[i] = governor.Grant{Name: claimed[i].Name, Amount: p.Part, Others: p.Others, Held: p.Held}
	}
	return grants
}
