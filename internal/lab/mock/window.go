package mock

import "time"

// minute is the length of the rolling window of both limits.
const minute = 60 * time.Second

// window sums the amounts of the last 60 seconds, exactly: an amount added at t counts at
// every now with now-60s < t ≤ now. There are no slots and no interpolation; it keeps a list of all
// amounts, so that the mock can judge cleverer windows.
//
// Times are durations since the server's start and must not run backwards.
type window struct {
	entries []entry // entries[head:] are inside the window, in order of time
	head    int
	removed uint64 // entries that compaction has cut off the front of the slice
	sum     int64
	peak    int64 // largest sum ever seen
}

type entry struct {
	at     time.Duration
	amount int64
}

// add counts amount at now and returns a reference by which reduce finds it again.
func (w *window) add(now time.Duration, amount int64) (ref uint64) {
	w.expire(now)
	// Amounts of the same instant leave at the same instant, so one entry is enough. This
	// keeps simulated time, in which whole bursts share an instant, cheap.
	if last := len(w.entries) - 1; last >= w.head && w.entries[last].at == now {
		w.entries[last].amount += amount
	} else {
		w.entries = append(w.entries, entry{now, amount})
	}
	w.sum += amount
	w.peak = max(w.peak, w.sum)
	return w.removed + uint64(len(w.entries)-1)
}

// reduce takes amount off the entry ref, as if it had never been there. An entry that has
// left the window counts no more, so there is nothing to give back.
func (w *window) reduce(now time.Duration, ref uint64, amount int64) {
	w.expire(now)
	if ref < w.removed+uint64(w.head) {
		return
	}
	w.entries[ref-w.removed].amount -= amount
	w.sum -= amount
}

// expire drops the entries that no longer count at now.
func (w *window) expire(now time.Duration) {
	for w.head < len(w.entries) && w.entries[w.head].at <= now-minute {
		w.sum -= w.entries[w.head].amount
		w.head++
	}
	// Moving the rest down once half is dead costs at most one move an entry.
	if w.head >= 32 && w.head*2 >= len(w.entries) {
		n := copy(w.entries, w.entries[w.head:])
		w.entries = w.entries[:n]
		w.removed += uint64(w.head)
		w.head = 0
	}
}

// wait returns the time until at least amount has left the window, if nothing is added. It
// returns 0 when amount is not positive.
func (w *window) wait(now time.Duration, amount int64) time.Duration {
	w.expire(now)
	for _, e := range w.entries[w.head:] {
		if amount <= 0 {
			break
		}
		amount -= e.amount
		if amount <= 0 {
			return e.at + minute - now
		}
	}
	return 0
}

// empty returns the time until the window is empty, if nothing is added.
func (w *window) empty(now time.Duration) time.Duration {
	w.expire(now)
	for i := len(w.entries) - 1; i >= w.head; i-- {
		if e := w.entries[i]; e.amount != 0 { // because entries given back in full do not count
			return e.at + minute - now
		}
	}
	return 0
}
