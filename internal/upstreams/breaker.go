package upstreams

import "time"

const (
	// slots × slotTime is how far back a breaker looks.
	slots    = 10
	slotTime = 3 * time.Second
	// leastCalls is how many it must have seen to judge.
	leastCalls = 5
	// firstPause and lastPause bound how long it stays open before it is probed.
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

// breaker is whether an upstream works, by the calls of the last half minute.
type breaker struct {
	good, bad [slots]int32
	at        int64 // the number of the newest slot

	open    bool
	until   time.Time     // when it may be probed
	pause   time.Duration // of the last opening
	probing bool
	answers bool // the failures were answers
}

// ready reports whether a call may go, and whether it would be the probe.
func (b *breaker) ready(now time.Time) (ok, probe bool) {
	if !b.open {
		return true, false
	}
	return !b.probing && !now.Before(b.until), true
}

// record notes what came of a call. It reports whether the breaker opened or closed.
func (b *breaker) record(now time.Time, works, answered, probe bool) (changed bool) {
	if probe {
		b.probing = false
	}
	switch {
	case b.open && !probe: // it had begun before
		return false
	case b.open && works:
		*b = breaker{at: b.at}
		return true
	case b.open:
		b.answers = answered
		b.trip(now, min(2*b.pause, lastPause))
		return false
	}
	b.turn(now)
	if works {
		b.good[b.at%slots]++
		return false
	}
	b.bad[b.at%slots]++
	good, bad := sum(b.good), sum(b.bad)
	if good+bad < leastCalls || bad < good {
		return false
	}
	b.answers = answered
	b.trip(now, firstPause)
	return true
}

func (b *breaker) trip(now time.Time, pause time.Duration) {
	b.open, b.pause, b.until = true, pause, now.Add(pause)
}

// turn forgets the slots that are too old.
func (b *breaker) turn(now time.Time) {
	newest := now.UnixNano() / int64(slotTime)
	for n := int64(0); b.at < newest && n < slots; n++ {
		b.at++
		b.good[b.at%slots], b.bad[b.at%slots] = 0, 0
	}
	if newest > b.at { // all are forgotten
		b.at = newest
	}
}

func sum(counts [slots]int32) (total int32) {
	for _, n := range counts {
		total += n
	}
	return total
}
