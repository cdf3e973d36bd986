package admission

import (
	"hash/maphash"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// claimSeed keeps callers from choosing keys that collide.
var claimSeed = maphash.MakeSeed()

// claimOf is the mark by which a call that was refused finds the place that was kept for it.
func claimOf(tenant string, r *ask.Retry) escrow.Claim {
	claim := escrow.Claim{Retry: r.Attempt}
	if r.Key == "" {
		return claim
	}
	var h maphash.Hash
	h.SetSeed(claimSeed)
	_, _ = h.WriteString(tenant)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(r.Key)
	claim.Key = h.Sum64()
	return claim
}
