package mock

import "time"

// minute is the length of the window of limits.
const minute = 60 * time.Second

// window sums the amounts of the last 60 seconds, exactly: an amount added at t counts at
// every now with now-60s < t ≤ now. There are no slots and no interpolation; it keeps a list of all
// amounts, so that the mock can judge cleverer windows.
//
// A fixed window counts the amounts since the last whole minute, or shorter time, instead, and a bucket what was added and not yet filled up.
//
// Times are durations since the server's start and must not run backwards.
type window struct {
	entries []entry // entries[head:] are inside the window, in order of time
	head    int
	removed uint64 // entries that compaction has cut off the front of the slice
	sum     int64
	peak    int64 // largest sum ever seen

	fixed  time.Duration // how long a fixed window is; 0 if it is none
	fill   int64         // of a bucket, in each minute; 0 if it is none
	filled time.Duration // until when it was
}

// ends is when an amount that was added at a time counts no more.
func (w *window) ends(at time.Duration) time.Duration {
	if w.fixed > 0 {
		return at.Truncate(w.fixed) + w.fixed
	}
	return at + minute
}

// filling is how long it takes to fill up an amount.
func (w *window) filling(amount int64) time.Duration {
	return time.Duration(float64(max(0, amount)) / float64(w.fill) * float64(minute))
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
	switch last := len(w.entries) - 1; {
	case w.fill > 0:
	case last >= w.head && w.entries[last].at == now:
		w.entries[last].amount += amount
	default:
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
	if w.fill > 0 {
		w.sum = max(0, w.sum-amount)
		return
	}
	if ref < w.removed+uint64(w.head) {
		return
	}
	w.entries[ref-w.removed].amount -= amount
	w.sum -= amount
}

// expire drops the entries that no longer count at now.
func (w *window) expire(now time.Duration) {
	if w.fill > 0 {
		in := min(w.sum, int64(float64(w.fill)*float64(now-w.filled)/float64(minute)))
		w.filled += w.filling(in)
		w.sum -= in
		if w.sum == 0 {
			w.filled = now
		}
		return
	}
	for w.head < len(w.entries) && w.ends(w.entries[w.head].at) <= now {
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
	if w.fill > 0 {
		return w.filling(amount)
	}
	for _, e := range w.entries[w.head:] {
		if amount <= 0 {
			break
		}
		amount -= e.amount
		if amount <= 0 {
			return w.ends(e.at) - now
		}
	}
	return 0
}

// empty returns the time until the window is empty, if nothing is added.
func (w *window) empty(now time.Duration) time.Duration {
	w.expire(now)
	if w.fill > 0 {
		return w.filling(w.sum)
	}
	for i := len(w.entries) - 1; i >= w.head; i-- {
		if e := w.entries[i]; e.amount != 0 { // because entries given back in full do not count
			return w.ends(e.at) - now
		}
	}
	return 0
}
