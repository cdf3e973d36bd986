package reserve

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/run/admission"
)

// Drain waits until all reservations have ended and their ends are booked, or ctx has ended.
func (b *Book) Drain(ctx context.Context) error { return b.inflight.Drain(ctx) }

// Close cuts off those that ask, and ends those that are open as calls that a shutdown breaks off.
func (b *Book) Close() {
	b.cut(admission.ErrDraining)
	b.mu.Lock()
	var open []*reservation
	var ends []*gone
	now := time.Now()
	for _, r := range b.all {
		if r.lease != nil {
			open = append(open, r)
			ends = append(ends, b.takeLocked(r, now))
		}
	}
	b.mu.Unlock()
	for i, r := range open {
		b.close(r, ends[i], client.End{Outcome: client.Cancelled})
	}
}
