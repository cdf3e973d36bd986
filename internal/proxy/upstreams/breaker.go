package upstreams

import "time"

const (
	// slots × slotTime is the time that a breaker remembers.
	slots    = 10
	slotTime = 3 * time.Second
	// leastCalls is the number of calls below which it does not open.
	leastCalls = 5
	// firstPause and lastPause bound the time that it stays open before a probe.
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

// breaker decides whether an upstream works, by the calls of the last half minute.
type breaker struct {
	good, bad [slots]int32
	at        int64 // the number of the newest slot

	open    bool
	since   time.Time     // it was opened
	until   time.Time     // when it may be probed
	pause   time.Duration // between two probes
	answers bool          // it still answers, perhaps with errors, or some calls only
	worked  time.Time     // of the last served call, roughly
	cause   string        // of the failure that opened it, or kept it open
	blamed  string        // the tenant whose calls failed
	several bool          // others' calls failed, too
}

// ready reports whether a call may go, and whether it would be a probe.
func (b *breaker) ready(now time.Time) (ok, probe bool) {
	return !b.open || !now.Before(b.until), b.open
}

// probed records that a probe was sent. If it lasts, as long answers do, another follows after the same pause, and the one
// after that later by twice as much, because each of them may hold a slot of the pool until it times out.
func (b *breaker) probed(now time.Time) {
	b.until = now.Add(b.pause)
	b.pause = min(2*b.pause, lastPause)
}

// abandoned records that a probe was given up, as if it had not been sent.
func (b *breaker) abandoned(now time.Time) {
	b.until = now
	b.pause = max(b.pause/2, firstPause)
}

// record records the outcome of a call. It reports whether the breaker opened or closed, or
// a probe failed.
func (b *breaker) record(now time.Time, works bool, r Result) (changed bool) {
	if !b.open {
		b.expire(now)
	}
	if !works {
		b.blame(withTeams(r.Tenant))
	}
	if b.open {
		return !r.Began.Before(b.since) && b.recordOpen(now, works, r)
	}
	if works {
		b.good[b.at%slots]++
		return false
	}
	b.bad[b.at%slots]++
	good := sum(b.good)
	bad := sum(b.bad)
	if good+bad < leastCalls || bad < good {
		return false
	}
	if good > 0 {
		b.worked = now
	}
	b.open = true
	b.since = now
	b.pause = firstPause
	b.failed(now, r)
	return true
}

// blame notes whose call failed.
func (b *breaker) blame(tenant string) {
	if b.blamed == "" {
		b.blamed = tenant
	}
	b.several = b.several || b.blamed != tenant
}

// answersTo reports whether calls of a tenant may find it working although it is open: it still answers, or one tenant's calls alone have failed,
// which may be of its own making.
func (b *breaker) answersTo(tenant string) bool {
	return b.answers || b.open && !b.several && b.blamed != withTeams(tenant)
}

// recordOpen is record for a call that began since the breaker opened. Only probes close
// it, because otherwise an upstream that serves every other call would open and close it all
// the time.
func (b *breaker) recordOpen(now time.Time, works bool, r Result) (changed bool) {
	switch {
	case works && !r.Probe:
		b.answers = true
		b.worked = now
	case works:
		*b = breaker{at: b.at, worked: now}
	case r.Probe:
		b.failed(now, r)
	}
	return r.Probe
}

// failed records the failure that opened it, or kept it open.
func (b *breaker) failed(now time.Time, r Result) {
	b.answers = r.Outcome != Silent || now.Sub(b.worked) < slots*slotTime
	b.until = now.Add(b.pause)
	b.cause = r.Cause
}

// expire clears the slots that are too old, or all if the clock was put back.
func (b *breaker) expire(now time.Time) {
	newest := now.UnixNano() / int64(slotTime)
	if newest < b.at || newest-b.at >= slots {
		*b = breaker{at: newest, worked: b.worked}
	}
	for b.at < newest {
		b.at++
		b.good[b.at%slots] = 0
		b.bad[b.at%slots] = 0
	}
}

func sum(counts [slots]int32) (total int32) {
	for _, n := range counts {
		total += n
	}
	return total
}
