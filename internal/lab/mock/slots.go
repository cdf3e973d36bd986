package mock

import (
	"container/list"
	"context"
)

// slots are the places in which requests run, and the queue before them. It is part of books
// and guarded by its lock.
type slots struct {
	running, peak int64
	queue         list.List // of chan struct{}, closed when the slot is the waiter's
}

// acquire takes a slot for t, waiting behind those who came before. It reports false when ctx
// ended first.
func (b *books) acquire(ctx context.Context, t *ticket) bool {
	b.mu.Lock()
	if b.slotLimit == 0 || b.slots.running < b.slotLimit {
		b.takeLocked()
		t.running = true
		b.mu.Unlock()
		return true
	}
	ready := make(chan struct{})
	place := b.slots.queue.PushBack(ready)
	b.mu.Unlock()

	select {
	case <-ready:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-ready: // even if ctx ended at the same time: end gives the slot on
		t.running = true
		return true
	default:
		b.slots.queue.Remove(place)
		return false
	}
}

func (b *books) takeLocked() {
	b.slots.running++
	b.slots.peak = max(b.slots.peak, b.slots.running)
}

// releaseLocked frees a slot, or hands it to the request that has waited longest. Because it is
// handed over, a slot is never free while requests wait, and none can slip in between.
func (b *books) releaseLocked() {
	b.slots.running--
	first := b.slots.queue.Front()
	if first == nil {
		return
	}
	b.takeLocked()
	close(b.slots.queue.Remove(first).(chan struct{}))
}
