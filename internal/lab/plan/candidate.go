package plan

import (
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/tenants"
)

// Candidate is the policy of a snapshot. A recorded call goes to the pool that serves its model there.
func Candidate(snap *tenants.Snapshot) Policy {
	return Policy{
		Governor: policy.Governor(snap),
		Ask: func(req *governor.Request) *decisions.Why {
			if code := policy.Reroute(snap, req); code != "" {
				return &decisions.Why{Reason: code, Own: true, Tenant: req.Tenant}
			}
			return nil
		},
		Price: func(req *governor.Request, upstream string) *governor.Price {
			return policy.PriceAt(snap, req, upstream)
		},
	}
}
