package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// alone is the admission of a process that has a pool to itself.
func alone(p scenario.Pool) gate { return newPool(p, epoch, false) }

// newPool is the production admission for a scenario's pool, of which others may have
// their share.
func newPool(p scenario.Pool, now time.Time, shared bool) *escrow.Pool {
	cfg := p.Escrow()
	cfg.Shared = shared
	return escrow.New(now, cfg)
}
