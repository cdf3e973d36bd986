package governor

import "time"

// Remaining is how much longer the call is expected to run, given how long calls of its kind ran;
// while nothing is known of these, as long as it has run so far. It is 0 if the lease has ended. It
// changes nothing.
func (l Lease) Remaining() time.Duration {
	if l.pool == nil {
		return 0
	}
	l.g.look()
	p := l.pool
	now := l.g.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.escrow.Running(l.handle) {
		return 0
	}
	p.lookLocked(true)
	defer p.lookLocked(false)
	st := &p.leases[l.handle.Slot]
	ran := now.Sub(st.since)
	speed := float64(p.speed) / 1000
	produced := int64(min(ran, longestRun).Seconds() * speed)
	if st.flowing { // only streams report progress
		produced = st.output
		if produced > 0 && ran > 0 {
			speed = float64(produced) / ran.Seconds()
		}
	}
	return p.remainingLocked(st.course, ran, min(produced, st.course.most), speed)
}

// remainingLocked is how much longer a call is expected to run that has run for so long and
// produced so much. It goes by how long such calls run, if that is known, and else by how much they
// produce, at speed tokens a second. If that is not known either, the most that it may produce says
// little: a call of 2 s may declare tokens for a minute. Then it is expected to run as long again, at
// most: a caller that comes back at that time waits no longer than twice as long as the call runs.
func (p *pool) remainingLocked(c course, ran time.Duration, produced int64, speed float64) time.Duration {
	if p.rules.Concurrency > 0 {
		run := time.Duration(p.runs.ReachOf(c.kind, longestRun.Milliseconds(), ran.Milliseconds())) * time.Millisecond
		if run < longestRun {
			return max(0, run-ran)
		}
	}
	left := p.outputs.ReachOf(c.kind, c.most, produced) - produced
	longest := longestRun
	if !p.outputs.Knows(c.kind, c.most) {
		longest = min(longest, ran)
	}
	return time.Duration(min(float64(left)/max(speed, 0.001), longest.Seconds()) * float64(time.Second))
}
