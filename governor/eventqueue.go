package governor

import (
	"sync"
	"sync/atomic"
)

// eventQueue delivers events to the Observer, in order and while no lock of the governor is held.
//
// An event that happens under the governor's lock is queued under it. It is delivered as soon as the lock is free:
// by the goroutine that queued it, or by one that delivers before. A goroutine that queues an event
// does not go on until it is delivered, so the queue is never longer than there are goroutines in
// the governor, and nothing is lost. An instant is delivered as a whole, after it.
type eventQueue struct {
	observer Observer // nil = nobody listens

	fresh bool // since the governor's lock was taken something was queued; that lock guards it

	mu    sync.Mutex // guards queue
	queue []Event

	// pending is how many events are queued or under way.
	pending atomic.Int64
	// turn holds an element while a goroutine delivers.
	turn chan struct{}
	// batch is under way. It belongs to the goroutine that delivers.
	batch []Event
}

func newEventQueue(o Observer) *eventQueue {
	return &eventQueue{observer: o, turn: make(chan struct{}, 1)}
}

// listened reports whether there is an Observer.
func (o *eventQueue) listened() bool { return o.observer != nil }

// add queues an event, if anybody listens. Call it under the governor's lock. Whoever gives that back delivers it.
func (o *eventQueue) add(e Event) {
	if !o.listened() {
		return
	}
	o.fresh = true
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending.Add(1)
	o.queue = append(o.queue, e)
}

// deliver returns when all events are delivered that were queued before. Call it without a lock.
func (o *eventQueue) deliver() {
	if o.pending.Load() == 0 {
		return
	}
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	o.takeQueue()
	for i := range o.batch {
		o.observer.Observe(o.batch[i])
	}
	clear(o.batch)
	o.pending.Add(-int64(len(o.batch)))
}

// tell delivers an event that happens under no lock, after those that are queued.
func (o *eventQueue) tell(e Event) {
	o.deliver()
	o.observer.Observe(e)
}

// takeQueue makes the queue the batch.
func (o *eventQueue) takeQueue() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue, o.batch = o.batch[:0], o.queue
}
