package events

import (
	"context"
	"sync"

	"github.com/llmgov/llmgov/governor"
)

// Event is an event with its number in the ring, from 1.
type Event struct {
	Seq uint64
	governor.Event
	// Failure is set for the failure of a call, which is no event of the governor. It has At, Request
	// and Ran of governor.Event.
	Failure *Failure
	// Warning is set for a budget of which a part is used, which is none either. It has At and, in Request, whose it is.
	Warning *Warning
}

// Ring keeps the last events. It is a governor.Observer, and safe for concurrent use.
type Ring struct {
	mu      sync.Mutex
	slots   []Event
	next    uint64 // the number of the next event
	readers map[*Reader]struct{}
}

// NewRing returns a ring of so many events.
func NewRing(size int) *Ring {
	return &Ring{slots: make([]Event, size), next: 1, readers: map[*Reader]struct{}{}}
}

// Observe adds an event, without the fields that only records need. It never waits.
func (r *Ring) Observe(e governor.Event) {
	if int(e.Kind) < governor.NumEventKinds {
		r.add(Event{Event: e})
	}
}

// add numbers an event, and wakes the readers.
func (r *Ring) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = r.next
	r.slots[e.Seq%uint64(len(r.slots))] = e
	r.next++
	for reader := range r.readers {
		reader.wake()
	}
}

// Next is the number of the next event.
func (r *Ring) Next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// Follow returns a reader whose first event has a number, or is the oldest one after it in
// the ring. It must be closed.
func (r *Ring) Follow(from uint64) *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	reader := &Reader{ring: r, next: from, more: make(chan struct{}, 1)}
	r.readers[reader] = struct{}{}
	reader.wake()
	return reader
}

// Reader follows a ring. It is for one goroutine.
type Reader struct {
	ring *Ring
	next uint64
	more chan struct{}
}

func (d *Reader) wake() {
	select {
	case d.more <- struct{}{}:
	default:
	}
}

// Read appends at most cap(into) events to into[:0]. Before the first of them lost events
// were overwritten. If there are none it waits for one, or until ctx ends: then it returns
// none.
func (d *Reader) Read(ctx context.Context, into []Event) (events []Event, lost uint64) {
	for {
		events, lost = d.take(into[:0])
		if len(events) > 0 {
			return events, lost
		}
		select {
		case <-d.more:
		case <-ctx.Done():
			return nil, 0
		}
	}
}

func (d *Reader) take(into []Event) (events []Event, lost uint64) {
	r := d.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := uint64(1)
	if size := uint64(len(r.slots)); r.next > size {
		oldest = r.next - size
	}
	if d.next < oldest {
		lost = oldest - d.next
		d.next = oldest
	}
	for ; d.next < r.next && len(into) < cap(into); d.next++ {
		into = append(into, r.slots[d.next%uint64(len(r.slots))])
	}
	return into, lost
}

// Close detaches the reader from the ring.
func (d *Reader) Close() {
	d.ring.mu.Lock()
	defer d.ring.mu.Unlock()
	delete(d.ring.readers, d)
}
