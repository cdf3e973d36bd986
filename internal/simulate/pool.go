package simulate

import "github.com/llmgov/llmgov/escrow"

// newPool is the production admission for a scenario's pool.
func newPool(p Pool) *escrow.Pool {
	return escrow.New(epoch, escrow.Config{
		TPM:                p.usable(p.TPM),
		RPM:                p.usable(p.RPM),
		Slots:              p.Concurrency,
		InteractiveReserve: p.InteractiveReserve,
		Burst:              p.Burst,
		Accounting:         p.Accounting,
		MaxQueue:           p.MaxQueue,
		TicketWait:         p.TicketWait,
	})
}
