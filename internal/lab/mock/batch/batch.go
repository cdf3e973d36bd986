// Package batch simulates a server that batches continuously: it begins every call at once, and all streams become slower the
// more there are. Prompts go first, so the first token comes as soon however many run. Contexts share one memory, the KV cache. Where
// it is full, the stream that came last is interrupted in the middle, and goes on when there is room again.
package batch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Batch is what runs at a server.
type Batch struct {
	half  int   // so many streams are each half as fast as one; 0 is no matter how many
	cache int64 // tokens; 0 is no bound

	mu    sync.Mutex
	seats []*Seat // in the order in which they came; guarded by mu
	held  int64   // tokens of those that run; guarded by mu
}

// New returns an empty Batch.
func New(half int, cache int64) *Batch { return &Batch{half: half, cache: cache} }

// Seat is a call in the batch.
type Seat struct {
	batch  *Batch
	first  time.Duration // until its first token
	step   time.Duration // from one token to the next, if it is alone
	came   int           // tokens so far
	tokens int64         // in the cache, its prompt included; guarded by batch.mu
	back   chan struct{} // closed when it may go on; nil while it runs; guarded by batch.mu
}

// Enter begins a call whose prompt has so many tokens.
func (b *Batch) Enter(prompt int64, first, step time.Duration) *Seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &Seat{batch: b, first: first, step: step, tokens: prompt}
	b.seats = append(b.seats, s)
	b.held += prompt
	b.interruptLocked(s)
	return s
}

// Leave ends a call.
func (s *Seat) Leave() {
	b := s.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seats = slices.DeleteFunc(b.seats, func(o *Seat) bool { return o == s })
	if s.back == nil {
		b.held -= s.tokens
	}
	b.resumeLocked()
}

// Wait blocks until token i has come. It reports false if ctx ended first.
func (s *Seat) Wait(ctx context.Context, i int) bool {
	for ; s.came <= i; s.came++ {
		if s.came == 0 && !sleep(ctx, s.first) || s.came > 0 && (!s.resumed(ctx) || !sleep(ctx, s.pause())) {
			return false
		}
		s.grow()
	}
	return ctx.Err() == nil
}

// resumed waits until the call runs. It reports false if ctx ended first.
func (s *Seat) resumed(ctx context.Context) bool {
	for {
		s.batch.mu.Lock()
		back := s.back
		s.batch.mu.Unlock()
		if back == nil {
			return true
		}
		select {
		case <-back:
		case <-ctx.Done():
			return false
		}
	}
}

// pause is the time until the next token, with as many calls as run now.
func (s *Seat) pause() time.Duration {
	running, _, _ := s.batch.Load()
	if s.batch.half == 0 {
		return s.step
	}
	return s.step + s.step*time.Duration(running-1)/time.Duration(s.batch.half)
}

// grow takes up a token more in the cache.
func (s *Seat) grow() {
	b := s.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	s.tokens++
	if s.back == nil {
		b.held++
		b.interruptLocked(s)
	}
}

// interruptLocked interrupts the streams that came last, but not the one given and not the first, until the cache is large enough.
func (b *Batch) interruptLocked(but *Seat) {
	for i := len(b.seats) - 1; i > 0 && b.cache > 0 && b.held > b.cache; i-- {
		if s := b.seats[i]; s != but && s.back == nil {
			s.back = make(chan struct{})
			b.held -= s.tokens
		}
	}
}

// resumeLocked lets interrupted streams go on that fit, the first that came first.
func (b *Batch) resumeLocked() {
	for _, s := range b.seats {
		if s.back == nil {
			continue
		}
		if b.held > 0 && b.held+s.tokens > b.cache {
			return
		}
		b.held += s.tokens
		close(s.back)
		s.back = nil
	}
}

// Load is how many calls run, how many are interrupted, and the part of the cache in use.
func (b *Batch) Load() (running, waiting int, used float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.seats {
		if s.back == nil {
			running++
		} else {
			waiting++
		}
	}
	if b.cache > 0 {
		used = min(1, float64(b.held)/float64(b.cache))
	}
	return running, waiting, used
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
