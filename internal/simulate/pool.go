package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// alone is the admission of a process that has a pool to itself.
func alone(p Pool) gate { return newPool(p, epoch, false) }

// newPool is the production admission for a scenario's pool, of which others may have
// their share.
func newPool(p Pool, now time.Time, shared bool) *escrow.Pool {
	return escrow.New(now, escrow.Config{
		TPM:                p.usable(p.TPM),
		RPM:                p.usable(p.RPM),
		Slots:              p.Concurrency,
		InteractiveReserve: p.InteractiveReserve,
		Burst:              p.Burst,
		Accounting:         p.Accounting,
		MaxQueue:           p.MaxQueue,
		TicketWait:         p.TicketWait,
		Shared:             shared,
	})
}
