package sharing

import (
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
)

// shares are the demands behind the claims on a pool's budgets, in their order.
type shares []governor.ShareDemand

// claimShare is the claim on a pool's budget, or on the share of one member.
func claimShare(d *governor.ShareDemand) parts.Claim {
	c := parts.Claim{
		Name: d.Name, Kind: parts.Period, Limit: d.Limit * d.Scale, Ends: d.Ends.UnixMilli(),
		Used: d.Here * d.Scale, Want: d.Here * d.Scale,
	}
	if d.Told {
		return c
	}
	ahead := int64(0)
	if d.Whole {
		c.Held = min(c.Used, d.Pending*d.Scale)
		if d.Wanted {
			ahead = max(1, d.Left/capShare)
		}
	}
	need := int64(0)
	if d.Lacks {
		need = d.Here + max(1, d.Last)
	}
	ahead = max(ahead, 4*d.Last, 2*(d.Here-d.Before))
	want := max(d.Here, min(d.Limit, max(d.Here+ahead, need)))
	c.Want = want * d.Scale
	c.Need = min(need, d.Limit) * d.Scale
	return c
}

// grants are the grants in the answers to the claims.
func (s shares) grants(list []parts.Part) (grants []governor.ShareGrant) {
	for i, p := range list {
		grants = append(grants, governor.ShareGrant{Of: s[i], Amount: p.Part, Others: p.Others, Held: p.Held})
	}
	return grants
}
