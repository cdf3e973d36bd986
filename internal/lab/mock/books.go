package mock

import (
	"sync"
	"time"
)

// books are the counters, limits and slots that requests share. They are under one lock, so that
// every reading of Stats is of one instant and its figures add up.
type books struct {
	accounting string
	tpm, rpm   int64
	slotLimit  int64
	start      time.Time

	mu       sync.Mutex
	counts   Stats  // guarded by mu; only the counters: stats reads windows and gauges elsewhere
	tokens   window // guarded by mu
	requests window // guarded by mu
	slots    slots  // guarded by mu
}

// ticket is the entry of one request in the books. Its owner sets only prompt and bound.
type ticket struct {
	prompt, bound int64 // tokens of the prompt; the most that all choices together may produce

	cached   int64  // tokens of the prompt that were cached
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
	cancelled outcome = iota // the zero value, because clients that leave cancel their request
	completed
	refused
	failed
	hungUp
)

func (o outcome) String() string {
	return [...]string{"cancelled", "completed", "refused", "failed", "hung up"}[o]
}

// now returns the time since the start. It must be called under the lock, so that no entry of a
// window comes before the one added last.
func (b *books) now() time.Duration {
	if b.tpm == 0 && b.rpm == 0 {
		return 0 // because nobody needs it, and reading a clock costs time
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

// cache counts n tokens of a prompt that were cached.
func (b *books) cache(n int64) {
	b.mu.Lock()
	b.counts.CachedTokens += n
	b.mu.Unlock()
}

// produce counts n output tokens produced now.
func (b *books) produce(t *ticket, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.produced += n
	b.counts.OutputTokens += n
	if b.tpm > 0 && b.accounting == Production {
		b.tokens.add(b.now(), n)
	}
}

// end closes a request: it frees the slot, settles the booking and counts the outcome. It reports
// false, and does nothing, if the request has ended already.
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

// levels returns the usage of the limits now.
func (b *books) levels() levels {
	if b.tpm == 0 && b.rpm == 0 {
		return levels{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.levelsLocked(b.now())
}

// needs returns the number of tokens that must fit into the window for a request to be admitted.
func (b *books) needs(t *ticket) int64 {
	if b.accounting == AdmitMax {
		return t.prompt + t.bound
	}
	return t.prompt
}

// judgeLocked decides on t without changing anything but the passing of time.
func (b *books) judgeLocked(now time.Duration, t *ticket) verdict {
	v := verdict{levels: b.levelsLocked(now)}
	need := b.needs(t)
	if b.tpm > 0 && need > b.tpm {
		v.axis = axisTokens
		v.requested = need
		v.tooLarge = true
		return v
	}
	if b.rpm > 0 {
		v.axis = axisRequests
		v.requested = 1
		v.wait = b.requests.wait(now, b.requests.sum+1-b.rpm)
	}
	if b.tpm > 0 {
		if wait := b.tokens.wait(now, b.tokens.sum+need-b.tpm); wait > v.wait {
			v.axis = axisTokens
			v.requested = need
			v.wait = wait
		}
	}
	v.ok = v.wait == 0
	return v
}

func (b *books) stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.tokens.expire(now)
	b.requests.expire(now)
	st := b.counts
	st.Running = b.slots.running
	st.PeakRunning = b.slots.peak
	st.Queued = int64(b.slots.queue.Len())
	st.TokensProduced = st.PromptTokens + st.OutputTokens
	st.WindowTokens = b.tokens.sum
	st.WindowTokensPeak = b.tokens.peak
	st.WindowRequests = b.requests.sum
	st.WindowRequestsPeak = b.requests.peak
	return st
}

func (b *books) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.tokens.expire(now)
	b.requests.expire(now)
	b.counts = Stats{}
	b.slots.peak = b.slots.running
	b.tokens.peak = b.tokens.sum
	b.requests.peak = b.requests.sum
}
