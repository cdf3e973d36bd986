package reserve

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/admission"
)

// Drain waits until all reservations have ended, or ctx has.
func (b *Book) Drain(ctx context.Context) error {
	b.mu.Lock()
	if len(b.all) == 0 {
		b.mu.Unlock()
		return nil
	}
	if b.empty == nil {
		b.empty = make(chan struct{})
	}
	empty := b.empty
	b.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
