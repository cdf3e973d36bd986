package intake

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Small is the size up to which bodies are counted without the book.
const Small = 64 << 10

// Intake hands out the memory for bodies. Its methods may be called by any goroutine.
type Intake struct {
	small     atomic.Int64 // bytes of small bodies
	smallMost atomic.Int64

	mu   sync.Mutex
	book *book // guarded by mu
}

// New returns an Intake with nothing in it.
func New(bounds Bounds) *Intake {
	in := &Intake{book: newBook(bounds)}
	in.smallMost.Store(bounds.small())
	return in
}

// SetBounds changes the bounds. Bodies that are in memory stay there.
func (in *Intake) SetBounds(bounds Bounds) {
	in.smallMost.Store(bounds.small())
	in.mu.Lock()
	in.book.bounds = bounds
	served := in.book.serve(time.Now())
	in.mu.Unlock()
	wake(served)
}

// Bytes is how much memory bodies have now.
func (in *Intake) Bytes() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.book.used + in.small.Load()
}

// Ask says whose body it is, and how large.
type Ask struct {
	Tenant string
	Bytes  int64
	// Readers is how many bodies of the tenant may be on their way in at the same time; 0 is any
	// number. Small bodies do not count.
	Readers int
	// Wait is how long the caller may be kept waiting. It is also the bound for a body that grows.
	Wait time.Duration
	// Reuse lets the memory be used for other bodies after the release. Then nothing may hold a part of
	// the body but what Claim.Open returned.
	Reuse bool
}

// Refused is the error of a body for which there is no memory.
type Refused struct {
	// Process says that it is the bound of all tenants together that is in the way. Otherwise it is
	// the tenant's own; Readers says then that too many of its bodies are on their way in.
	Process, Readers bool
	RetryAfter       time.Duration
}

// Error implements error.
func (r *Refused) Error() string {
	switch {
	case r.Process:
		return "the memory for bodies is full"
	case r.Readers:
		return "too many bodies of the tenant are on their way in"
	}
	return "the tenant's memory for bodies is full"
}

// Claim is the memory of one body. The zero value has none. It is not for several goroutines.
type Claim struct {
	// Waited is how long it took to get the memory.
	Waited time.Duration

	in     *Intake
	ask    Ask
	small  int64   // counted without the book
	entry  *entry  // in the book; nil for a small body
	memory []byte  // up to the end of the body that was read
	buffer *buffer // that it is a part of, if it is used again
}

// Ask waits until a body may be read. The error is a *Refused, or the context's.
func (in *Intake) Ask(ctx context.Context, c *Claim, ask Ask) error {
	c.in = in
	ask.Bytes = max(1, ask.Bytes) // who waits, waits for something
	c.ask = ask
	if ask.Bytes <= Small {
		if in.small.Add(ask.Bytes) <= in.smallMost.Load() {
			c.small = ask.Bytes
			return nil
		}
		in.small.Add(-ask.Bytes)
	}
	return c.more(ctx, ask.Bytes)
}

// Bytes is how much memory the claim has.
func (c *Claim) Bytes() int64 {
	if c.entry != nil {
		return c.entry.has
	}
	return c.small
}

// Grow waits until a body that is being read may become as large as bytes. If it is refused, the
// claim keeps what it has until it is released.
func (c *Claim) Grow(ctx context.Context, bytes int64) error {
	if bytes <= c.Bytes() {
		return nil
	}
	if c.entry != nil {
		return c.more(ctx, bytes-c.entry.has)
	}
	err := c.more(ctx, bytes) // in the book as a whole
	if err == nil {
		c.in.small.Add(-c.small)
		c.small = 0
	}
	return err
}

// more asks the book.
func (c *Claim) more(ctx context.Context, bytes int64) error {
	in := c.in
	began := time.Now()
	in.mu.Lock()
	e := c.entry
	if e == nil {
		e = in.book.open(c.ask.Tenant, c.ask.Readers)
	}
	why := in.book.ask(e, bytes, began)
	if why == fits {
		c.entry = e
		served := in.book.serve(began) // the tenant has more now, so that others may come before it
		in.mu.Unlock()
		wake(served)
		return nil
	}
	left := c.ask.Wait - c.Waited
	if left <= 0 || !in.book.canWait(e, bytes) {
		refused := c.refusedLocked(e, bytes, why)
		in.mu.Unlock()
		return refused
	}
	e.granted = make(chan struct{})
	in.book.wait(e, bytes)
	in.mu.Unlock()

	err := e.await(ctx, left)
	c.Waited += time.Since(began)
	if err == nil {
		c.entry = e
		return nil
	}
	return c.giveUp(e, bytes, err)
}

var errLate = errors.New("intake: waited too long")

// await waits until an entry is granted.
func (e *entry) await(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-e.granted:
		return nil
	case <-timer.C:
		return errLate
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// giveUp leaves the line, unless the memory was granted at the last moment.
func (c *Claim) giveUp(e *entry, bytes int64, err error) error {
	in := c.in
	in.mu.Lock()
	if e.wants == 0 {
		c.entry = e
		in.mu.Unlock()
		return nil
	}
	why := in.book.obstacle(e, bytes)
	in.book.leave(e)
	if err == errLate {
		err = c.refusedLocked(e, bytes, why)
	} else if c.entry == nil {
		in.book.close(e, time.Now())
	}
	served := in.book.serve(time.Now()) // those behind it may fit
	in.mu.Unlock()
	wake(served)
	return err
}

// refusedLocked is the refusal of an entry, which is forgotten if it has no memory.
func (c *Claim) refusedLocked(e *entry, bytes int64, why cause) *Refused {
	b := c.in.book
	r := &Refused{
		Process:    why == processFull || why == fits, // if it fits, it waited for its turn
		Readers:    why == readersFull,
		RetryAfter: b.retryAfter(e, bytes, why),
	}
	if c.entry == nil {
		b.close(e, time.Now())
	}
	return r
}

// Arrived notes that the body is in memory as a whole, and gives back what it does not need.
func (c *Claim) Arrived(bytes int64) {
	if c.in == nil {
		return
	}
	spare := c.Bytes() - bytes
	if c.entry == nil {
		if spare != 0 {
			c.in.small.Add(-spare)
			c.small = bytes
		}
		return
	}
	c.in.mu.Lock()
	c.in.book.arrived(c.entry)
	c.in.book.shrink(c.entry, spare)
	served := c.in.book.serve(time.Now())
	c.in.mu.Unlock()
	wake(served)
}

// Release gives everything back. Only the first call counts.
func (c *Claim) Release() {
	c.memory = nil
	if c.buffer != nil {
		c.buffer.leave()
		c.buffer = nil
	}
	if c.small > 0 {
		c.in.small.Add(-c.small)
		c.small = 0
	}
	e := c.entry
	if e == nil {
		return
	}
	c.entry = nil
	now := time.Now()
	c.in.mu.Lock()
	c.in.book.close(e, now)
	served := c.in.book.serve(now)
	c.in.mu.Unlock()
	wake(served)
}

// wake ends the waits of entries that were served.
func wake(served []*entry) {
	for _, e := range served {
		close(e.granted)
	}
}
