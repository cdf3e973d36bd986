package escrow

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// flowStretch is over how long a flow is averaged at least, in µs: a provider's minute. A tenant that
// bursts once a minute counts by its mean.
const flowStretch = windowMicros

// forever is longer than any turn.
const forever = 24 * time.Hour

// flow is how much was served lately at a node: in the present stretch of time and in the one before.
type flow struct {
	stretch     int64 // index of the present one, from the pool's start
	now, before int64 // virtual cost
}

// add counts a virtual cost that was served at a time, or taken back.
func (f *flow) add(at, virtual int64) {
	stretch := at / flowStretch
	switch {
	case stretch == f.stretch+1:
		f.before = f.now
		f.now = 0
	case stretch > f.stretch:
		f.before = 0
		f.now = 0
	}
	f.stretch = max(f.stretch, stretch)
	f.now += virtual
}

// lately is how much was served in how many µs.
func (f *flow) lately(at int64) (served, in int64) {
	stretch := at / flowStretch
	switch stretch {
	case f.stretch:
		served = f.before + f.now
	case f.stretch + 1:
		served = f.now
	}
	since := max(0, stretch-1) * flowStretch
	return max(0, served), max(at-since, flowStretch/4)
}

// within is how much will be served in a time, if it goes on as it did lately.
func (f *flow) within(at int64, d time.Duration) int64 {
	served, in := f.lately(at)
	return muldiv.Ceil(served, int64(d/time.Microsecond), in)
}

// needs is how long it takes until so much has been served.
func (f *flow) needs(at, virtual int64) time.Duration {
	served, in := f.lately(at)
	if served == 0 {
		return forever
	}
	return min(forever, time.Duration(min(muldiv.Ceil(virtual, in, served), int64(forever/time.Microsecond)))*time.Microsecond)
}
