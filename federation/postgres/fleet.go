package postgres

import (
	"sync"
	"time"
)

// fleet is what beats of pools say of the gateways that use the store: whether all of them know the logs of this release. Gateways beat for
// every pool, but for owners only if there are calls.
type fleet struct {
	mu    sync.Mutex
	alike bool      // a pool has been found of which all gateways do
	mixed time.Time // until when others may be there
	look  time.Time // when to look for logs that those cannot read
}

// mixedFor is for how long gateways of another format count as there after a pool's account had one. A store that has lost its data does not
// know all of them at first.
const mixedFor = time.Minute

// hear notes whether all gateways of a pool are alike.
func (f *fleet) hear(now time.Time, alike bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if alike {
		f.alike = true
		return
	}
	f.mixed = now.Add(mixedFor)
}

// isMixed reports whether there are gateways of another format.
func (f *fleet) isMixed(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.mixed)
}

// isAlike reports whether all gateways are known to be of this format.
func (f *fleet) isAlike(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alike && !now.Before(f.mixed)
}

// looks reports whether it is time to look for logs that others cannot read.
func (f *fleet) looks(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Before(f.look) {
		return false
	}
	f.look = now.Add(lookEvery)
	return true
}

// lookEvery is how often a gateway looks for logs at most, because it has to look at all rows.
const lookEvery = time.Second
