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
	return escrow.New(now, escrow.Config{
		TPM:                p.Usable(p.TPM),
		RPM:                p.Usable(p.RPM),
		Slots:              p.Concurrency,
		InteractiveReserve: p.InteractiveReserve,
		SoftCap:            p.SoftCapPPM,
		HoldBack:           p.HoldBackPPM,
		Burst:              p.Burst,
		Accounting:         p.Accounting,
		MaxQueue:           p.MaxQueue,
		TicketWait:         p.TicketWait,
		Shared:             shared,
	})
}
