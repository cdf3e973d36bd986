package admission

import (
	"sync/atomic"
	"time"
)

// speed is a moving average of output tokens a second, over whole calls. Calls that broke off and
// left nothing to count are charged by it.
type speed struct{ milli atomic.Int64 }

func (s *speed) observe(tokens int64, d time.Duration) {
	if tokens <= 0 || d < time.Millisecond {
		return
	}
	sample := tokens * int64(time.Second) / int64(d) * 1000
	old := s.milli.Load()
	if old == 0 {
		old = sample
	}
	s.milli.Store(old + (sample-old)/16) // a lost race loses a sample
}

// produced guesses how much a call has produced in d; at most the bound.
func (s *speed) produced(d time.Duration, bound int64) int64 {
	milli := s.milli.Load()
	if milli == 0 {
		return bound
	}
	return min(bound, int64(d.Seconds()*float64(milli)/1000)+1)
}
