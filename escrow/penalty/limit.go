package penalty

import "time"

// Memory is how long a failure counts.
const Memory = 5 * time.Minute

// mostPatience bounds Limit.patience.
const mostPatience = 16

// Limit is how many calls of one tenant may run at one upstream. The zero value is no limit. It is plain state, without a lock or a
// clock.
type Limit struct {
	most      int64     // 0 is no limit
	succeeded int64     // calls towards the next increase
	patience  int64     // how many times as many calls as may run have to succeed for an increase
	tried     int64     // how many ran when one failed
	lowered   time.Time // the last decrease
	failed    time.Time // the last failure
}

// Most is how many calls may run; 0 is no limit.
func (l *Limit) Most(now time.Time) int64 {
	if now.Sub(l.failed) >= Memory {
		*l = Limit{}
	}
	return l.most
}

// Ends is when the limit is forgotten if no other call fails.
func (l *Limit) Ends() time.Time { return l.failed.Add(Memory) }

// Failed notes that the upstream failed a call that began at a time, while the tenant ran so many calls there, this one included.
func (l *Limit) Failed(now, began time.Time, running int64) {
	most := l.Most(now)
	l.failed = now
	if most > 0 && !began.After(l.lowered) {
		return
	}
	if most > 0 {
		running = min(running, most)
	}
	l.most = max(1, running/2)
	l.tried = running
	l.patience = min(max(1, 2*l.patience), mostPatience)
	l.succeeded = 0
	l.lowered = now
}

// Succeeded notes that a call came to its end while the tenant ran so many calls there, this one included. all is how many calls anybody
// may run.
func (l *Limit) Succeeded(now time.Time, running, all int64) {
	most := l.Most(now)
	if most == 0 || running < most {
		return
	}
	l.succeeded++
	if l.succeeded < l.patience*most {
		return
	}
	l.most++
	l.succeeded = 0
	if l.most > l.tried {
		l.patience = max(1, l.patience/2)
	}
	if l.most >= all {
		*l = Limit{}
	}
}
