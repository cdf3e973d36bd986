package tokens

import (
	"sync/atomic"
	"time"
)

// level is about as much as nearly all reports of late have said, whichever of them a caller sends last: it
// rises to a higher one at once, by half of the way, and sinks towards lower ones by a 32nd of the way a minute. So
// cheap calls do not make room for dear ones. The first report sets it.
type level struct {
	value atomic.Int64
	sank  time.Time // zero = nothing learned yet
}

const (
	// sinkEvery is the time between two steps down, of a part of 1/sinkPart of the way.
	sinkEvery = time.Minute
	sinkPart  = 32
	// telling is the weight from which on a prompt raises a level by half of the way. Smaller ones raise it by less, or
	// the overhead of their JSON would be that of all.
	telling = 1024 * Scale
)

// learnLocked takes in a report on something of a weight. evenly makes it an average.
func (l *level) learnLocked(now time.Time, sample, weight int64, evenly bool) {
	value := l.value.Load()
	switch {
	case l.sank.IsZero():
		value = sample
		l.sank = now
	case sample > value:
		steps := min(max(telling/max(1, weight), 2), sinkPart)
		if evenly {
			steps = sinkPart
		}
		value += (sample - value + steps - 1) / steps
	case evenly || now.Sub(l.sank) >= sinkEvery:
		value -= (value - sample + sinkPart - 1) / sinkPart
		l.sank = now
	}
	l.value.Store(value)
}
