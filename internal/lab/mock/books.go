package mock

import (
	"sync"
	"time"
)

// books are the counters, limits and slots that requests share. They are under one lock, so that
// every reading of Stats is of one instant and its figures add up.
type books struct {
	accounting string
	limits     [axes]int64
	slotLimit  int64
	start      time.Time

	mu      sync.Mutex
	counts  Stats        // guarded by mu; only the counters: stats reads windows and gauges elsewhere
	windows [axes]window // guarded by mu
	slots   slots        // guarded by mu
}

// ticket is the entry of one request in the books. Its owner sets only prompt and bound.
type ticket struct {
	prompt, bound int64 // tokens of the prompt; the most that all choices together may produce

	cached   int64        // tokens of the prompt that were cached
	produced int64        // output tokens so far
	booked   int64        // amount of the entry in the token window
	entries  [axes]uint64 // references of the entries in the windows
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
	if b.unlimited() {
		return 0 // because nobody needs it, and reading a clock costs time
	}
	return time.Since(b.start)
}

func (b *books) unlimited() bool { return b.limits == [axes]int64{} }

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
	for k, need := range b.needs(t) {
		if b.limits[k] == 0 || axis(k) == axisOutput || axis(k) == axisTokens && b.accounting == Settle {
			continue
		}
		t.entries[k] = b.windows[k].add(now, need)
		if axis(k) == axisTokens {
			t.booked = need
		}
	}
	v.levels = b.levelsLocked(now)
	return v
}

// cache counts the tokens of a prompt that were cached. They are no input.
func (b *books) cache(t *ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.CachedTokens += t.cached
	if b.limits[axisInput] > 0 {
		b.windows[axisInput].reduce(b.now(), t.entries[axisInput], t.cached)
	}
}

// produce counts n output tokens produced now.
func (b *books) produce(t *ticket, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.produced += n
	b.counts.OutputTokens += n
	if b.limits[axisTokens] > 0 && b.accounting == Production {
		b.windows[axisTokens].add(b.now(), n)
	}
	if more := t.prompt + burn*t.produced - t.booked; more > 0 && b.limits[axisTokens] > 0 && b.accounting == Bedrock {
		b.windows[axisTokens].add(b.now(), more)
		t.booked += more
	}
	if b.limits[axisOutput] > 0 {
		b.windows[axisOutput].add(b.now(), n)
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
	if t.admitted && b.limits[axisTokens] > 0 {
		b.settleLocked(b.now(), t)
	}
	return true
}

func (b *books) settleLocked(now time.Duration, t *ticket) {
	switch b.accounting {
	case AdmitMax:
		b.windows[axisTokens].reduce(now, t.entries[axisTokens], t.booked-t.prompt-t.produced)
	case Bedrock:
		b.windows[axisTokens].reduce(now, t.entries[axisTokens], t.booked-t.prompt+t.cached-burn*t.produced)
	case Settle:
		b.windows[axisTokens].add(now, t.prompt+t.produced)
	}
}

// burn is how many tokens Bedrock counts for each that is produced.
const burn = 5

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
	if b.unlimited() {
		return levels{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.levelsLocked(b.now())
}

// needs returns the amounts that must fit into the windows for a request to be admitted. Output counts when it is produced, as at
// Anthropic.
func (b *books) needs(t *ticket) [axes]int64 {
	tokens := t.prompt
	if b.accounting == AdmitMax || b.accounting == Bedrock {
		tokens += t.bound
	}
	return [axes]int64{axisRequests: 1, axisTokens: tokens, axisInput: t.prompt, axisOutput: 1}
}

// judgeLocked decides on t without changing anything but the passing of time.
func (b *books) judgeLocked(now time.Duration, t *ticket) verdict {
	v := verdict{levels: b.levelsLocked(now)}
	for k, need := range b.needs(t) {
		limit := b.limits[k]
		if limit == 0 {
			continue
		}
		w := &b.windows[k]
		wait := w.wait(now, w.sum+need-limit)
		if need > limit || wait > v.wait {
			v.axis = axis(k)
			v.requested = need
			v.wait = wait
		}
		if need > limit {
			v.tooLarge = true
			return v
		}
	}
	v.ok = v.wait == 0
	return v
}

func (b *books) stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	tokens := &b.windows[axisTokens]
	requests := &b.windows[axisRequests]
	tokens.expire(now)
	requests.expire(now)
	st := b.counts
	st.Running = b.slots.running
	st.PeakRunning = b.slots.peak
	st.Queued = int64(b.slots.queue.Len())
	st.TokensProduced = st.PromptTokens + st.OutputTokens
	st.WindowTokens = tokens.sum
	st.WindowTokensPeak = tokens.peak
	st.WindowRequests = requests.sum
	st.WindowRequestsPeak = requests.peak
	return st
}

func (b *books) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.counts = Stats{}
	b.slots.peak = b.slots.running
	for k := range b.windows {
		b.windows[k].expire(now)
		b.windows[k].peak = b.windows[k].sum
	}
}
