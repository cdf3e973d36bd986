package slots

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// longest is how long the longest call ran, of those that ended within the last one to two minutes,
// and how many these were.
type longest struct {
	now, before ended
	since       time.Time
}

// ended is the same for the calls of one minute.
type ended struct {
	most  time.Duration
	calls int
}

// Ran notes how long a call ran that has ended.
func (s *Side) Ran(now time.Time, ran time.Duration) { s.longest.note(now, ran) }

func (l *longest) note(now time.Time, ran time.Duration) {
	if now.Sub(l.since) >= escrow.Window {
		l.before = l.now
		if now.Sub(l.since) >= 2*escrow.Window {
			l.before = ended{}
		}
		l.now = ended{}
		l.since = now
	}
	l.now = ended{max(l.now.most, ran), l.now.calls + 1}
}

// enough is how many calls have to have ended for the longest to be taken as a measure.
const enough = 32

// tail is how long calls here may go on running if this process is heard of no more, given how long
// the oldest has run already: a quarter longer than any has of late, but at most a Window. Where
// too few have ended to know, it is a Window of package escrow.
func (l *longest) tail(now time.Time, oldest time.Duration) time.Duration {
	if l.now.calls+l.before.calls < enough || now.Sub(l.since) >= 2*escrow.Window {
		return escrow.Window
	}
	most := max(l.now.most, l.before.most, oldest)
	return min(most+most/4, escrow.Window)
}
