package mock

import (
	"sync"
	"time"
)

// books is all that requests share: counters, limits and slots. One lock keeps them, so that
// every reading of Stats is of one instant and its figures add up.
type books struct {
	accounting string
	tpm, rpm   int64
	slotLimit  int64
	start      time.Time

	mu       sync.Mutex
	counts   Stats  // guarded by mu; only its counters, windows and gauges are read off elsewhere
	tokens   window // guarded by mu
	requests window // guarded by mu
	slots    slots  // guarded by mu
}

// ticket is what books knows of one request. Its owner fills in prompt and bound, and touches
// the rest no more.
type ticket struct {
	prompt, bound int64 // tokens of the prompt; the most that all choices together may produce

	produced int64  // output tokens so far
	booked   int64  // amount of the entry in the token window
	entry    uint64 // reference of that entry
	admitted bool
	running  bool // holds a slot
	ended    bool
}

// outcome is how a request ended. Each ends in exactly one way.
type outcome uint8

const (
	cancelled outcome = iota // the zero value: who leaves without a word has been cancelled
	completed
	refused
	failed
	hungUp
)

func (o outcome) String() string {
	return [...]string{"cancelled", "completed", "refused", "failed", "hung up"}[o]
}

// now returns the time since the start. It is asked under the lock, so that no entry of a
// window can come before the one added last.
func (b *books) now() time.Duration {
	if b.tpm == 0 && b.rpm == 0 {
		return 0 // nobody needs it, and reading a clock is not free
	}
	return time.Since(b.start)
}

func (b *books) arrive() {
	b.mu.Lock()
	b.counts.Requests++
	b.mu.Unlock()
}

// admit decides on a request and books it.
func (b *books) admit(t *ticket) verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	v := b.judgeLocked(now, t)
	if !v.ok {
		return v
	}
	t.admitted = true
	b.counts.Admitted++
	b.counts.PromptTokens += t.prompt
	if b.rpm > 0 {
		b.requests.add(now, 1)
	}
	if b.tpm > 0 && b.accounting != Settle {
		t.booked = b.needs(t)
		t.entry = b.tokens.add(now, t.booked)
	}
	if b.tpm > 0 || b.rpm > 0 {
		v.levels = b.levelsLocked(now)
	}
	return v
}

// produce counts n output tokens that have come into being now.
func (b *books) produce(t *ticket, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.produced += n
	b.counts.OutputTokens += n
	if b.tpm > 0 && b.accounting == Production {
		b.tokens.add(b.now(), n)
	}
}

// end closes a request: it frees the slot, settles the booking and counts the outcome. Only
// the first call for a ticket does anything; it reports whether it was.
func (b *books) end(t *ticket, o outcome) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.ended {
		return false
	}
	t.ended = true
	if t.running {
		t.running = false
		b.releaseLocked()
	}
	b.countLocked(o)
	if t.admitted && b.tpm > 0 {
		b.settleLocked(b.now(), t)
	}
	return true
}

func (b *books) settleLocked(now time.Duration, t *ticket) {
	switch b.accounting {
	case AdmitMax:
		b.tokens.reduce(now, t.entry, t.booked-t.prompt-t.produced)
	case Settle:
		b.tokens.add(now, t.prompt+t.produced)
	}
}

func (b *books) countLocked(o outcome) {
	switch o {
	case cancelled:
		b.counts.Cancelled++
	case completed:
		b.counts.Completed++
	case refused:
		b.counts.Refused++
	case failed:
		b.counts.Errors++
	case hungUp:
		b.counts.Hangups++
	}
}

// levels returns how full the limits are now.
func (b *books) levels() levels {
	if b.tpm == 0 && b.rpm == 0 {
		return levels{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.levelsLocked(b.now())
}
