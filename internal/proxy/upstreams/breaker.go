package upstreams

import "time"

const (
	// window is the time that a breaker remembers, of which it forgets a half at a time.
	window = 30 * time.Second
	// leastCalls is the number of calls below which it does not open.
	leastCalls = 5
	// mostVoices bounds the tenants that are told apart.
	mostVoices = 1000
	// firstPause and lastPause bound the time that it stays open before a probe.
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

// breaker decides whether an upstream works, by the calls of the last half minute: those of all, and of most tenants.
type breaker struct {
	voices map[string]*voice // of tenants with their teams
	half   int64             // the number of the newest half of a window

	// The sums of the voices: calls, and tenants half of whose calls failed, and others.
	good, bad, failing, served int32

	open    bool
	since   time.Time     // it was opened
	until   time.Time     // when it may be probed
	pause   time.Duration // between two probes
	answers bool          // it still answers, perhaps with errors, or some calls only
	worked  time.Time     // of the last served call, roughly
	cause   string        // of the failure that opened it, or kept it open
	failed  string        // the tenant whose calls alone have failed; "" if others' have
}

// voice is what a tenant's calls say of an upstream, in this half of a window and the one before.
type voice struct{ good, bad [2]int32 }

// fails reports whether half of enough calls failed; v may be nil.
func (v *voice) fails() bool {
	if v == nil {
		return false
	}
	good := v.good[0] + v.good[1]
	bad := v.bad[0] + v.bad[1]
	return good+bad >= leastCalls && bad >= good
}

// answersTo reports whether calls of a tenant may be served although it is open: it still answers, or has failed another tenant's calls
// alone, which may be of that one's own making.
func (b *breaker) answersTo(tenant string) bool {
	return b.answers || b.failed != "" && b.failed != withTeams(tenant)
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
	tenant := withTeams(r.Tenant)
	if b.open {
		return !r.Began.Before(b.since) && b.recordOpen(now, works, tenant, r)
	}
	b.note(now, works, tenant)
	ofOne := b.failing == 1 && b.served > 0 // who may make its calls fail
	if works || b.good+b.bad < leastCalls || b.bad < b.good || ofOne {
		return false
	}
	if b.good > 0 {
		b.worked = now
	}
	if b.failing == 1 {
		b.failed = tenant
	}
	b.opens(now, r)
	return true
}

// opens opens it.
func (b *breaker) opens(now time.Time, r Result) {
	b.open = true
	b.since = now
	b.pause = firstPause
	b.fail(now, r)
}

// recordOpen is record for a call that began since the breaker opened. Only probes close
// it, because otherwise an upstream that serves every other call would open and close it all
// the time.
func (b *breaker) recordOpen(now time.Time, works bool, tenant string, r Result) (changed bool) {
	if !works && tenant != b.failed {
		b.failed = ""
	}
	switch {
	case works && !r.Probe:
		b.answers = true
		b.worked = now
	case works:
		*b = breaker{worked: now}
	case r.Probe:
		b.fail(now, r)
	}
	return r.Probe
}

// fail records the failure that opened it, or kept it open.
func (b *breaker) fail(now time.Time, r Result) {
	b.answers = r.Outcome != Silent || now.Sub(b.worked) < window
	b.until = now.Add(b.pause)
	b.cause = r.Cause
}

// note notes how a call of a tenant ended.
func (b *breaker) note(now time.Time, works bool, tenant string) {
	b.turn(now)
	v := b.voices[tenant]
	if v == nil && len(b.voices) >= mostVoices {
		tenant = ""
		v = b.voices[tenant]
	}
	if v == nil {
		v = &voice{}
		b.voices[tenant] = v
	} else {
		b.count(v, -1)
	}
	if works {
		v.good[0]++
	} else {
		v.bad[0]++
	}
	b.count(v, 1)
}

// count adds a voice to the sums, or takes it away if by is -1.
func (b *breaker) count(v *voice, by int32) {
	good := v.good[0] + v.good[1]
	bad := v.bad[0] + v.bad[1]
	b.good += by * good
	b.bad += by * bad
	if bad < good {
		b.served += by
	} else {
		b.failing += by
	}
}

// turn forgets what is too old, or all if the clock was put back.
func (b *breaker) turn(now time.Time) {
	half := now.UnixNano() / int64(window/2)
	if half == b.half && b.voices != nil {
		return
	}
	kept := b.voices
	if half != b.half+1 {
		kept = nil
	}
	*b = breaker{voices: map[string]*voice{}, half: half, worked: b.worked}
	for tenant, v := range kept {
		if v.good[0]+v.bad[0] == 0 {
			continue
		}
		v.good = [2]int32{0, v.good[0]}
		v.bad = [2]int32{0, v.bad[0]}
		b.voices[tenant] = v
		b.count(v, 1)
	}
}
