package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// rolling is the sum over the last window, (t − 60 s, t], kept exactly.
type rolling struct {
	entries []rollingEntry
	oldest  int
	sum     int64
	last    map[int32]int // newest entry of a request, for refunds; only when refundable
}

type rollingEntry struct {
	at     time.Duration
	amount int64
}

// leave takes out amounts that are older than the window at a time.
func (r *rolling) leave(at time.Duration) {
	for ; r.oldest < len(r.entries) && r.entries[r.oldest].at <= at-escrow.Window; r.oldest++ {
		r.sum -= r.entries[r.oldest].amount
	}
}

// add counts an amount of a request, and returns the sum then. A negative
// amount takes back part of what the request was counted last, if that is still
// in the window.
func (r *rolling) add(at time.Duration, request int32, amount int64) int64 {
	r.leave(at)
	if r.last == nil {
		r.last = map[int32]int{}
	}
	if amount < 0 {
		if i, ok := r.last[request]; ok && i >= r.oldest {
			r.entries[i].amount += amount
			r.sum += amount
		}
		return r.sum
	}
	r.last[request] = len(r.entries)
	r.entries = append(r.entries, rollingEntry{at, amount})
	r.sum += amount
	return r.sum
}

// rollingMax is the largest sum over any window of a trace, from the start on,
// of tokens or requests. each, when it is not nil, sees every sum.
func rollingMax(t *Trace, axis escrow.Axis, each func(at time.Duration, sum int64)) int64 {
	var r rolling
	most := int64(0)
	t.uses(axis, func(e *Occurrence, amount int64) {
		sum := r.add(e.At, e.Request, amount)
		most = max(most, sum)
		if each != nil {
			each(e.At, sum)
		}
	})
	return most
}

// mostRunning is the largest number of requests that ran at once.
func mostRunning(t *Trace, each func(at time.Duration, running int64)) int64 {
	running := int64(0)
	most := int64(0)
	for i := range t.Events {
		switch e := &t.Events[i]; e.Kind {
		case Admitted:
			running++
		case Settled:
			running--
		default:
			continue
		}
		most = max(most, running)
		if each != nil {
			each(t.Events[i].At, running)
		}
	}
	return most
}
