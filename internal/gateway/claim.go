package gateway

import (
	"hash/maphash"
	"strconv"

	"github.com/llmgov/llmgov/escrow"
)

// claimSeed keeps callers from choosing keys that collide.
var claimSeed = maphash.MakeSeed()

// claim tells whether the call was refused before: by its Idempotency-Key, or by the count of
// retries that Stainless SDKs (openai, anthropic) send.
func (c *call) claim() escrow.Claim {
	var claim escrow.Claim
	if key := c.r.Header.Get("Idempotency-Key"); key != "" {
		var h maphash.Hash
		h.SetSeed(claimSeed)
		_, _ = h.WriteString(c.tenant.Name)
		_ = h.WriteByte(0)
		_, _ = h.WriteString(key)
		claim.Key = h.Sum64()
	}
	if n, err := strconv.Atoi(c.r.Header.Get("X-Stainless-Retry-Count")); err == nil {
		claim.Retry = escrow.RetryFirst
		if n > 0 {
			claim.Retry = escrow.RetryAgain
		}
	}
	return claim
}
