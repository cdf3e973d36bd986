package escrow

import (
	"math/bits"
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// patience is how long the callers of a leaf stay away and still come back. A worker comes back after
// minutes, a user's request is given up after seconds. Places that nobody will come for must not make
// those wait who come after them, or the callers of an impatient tenant would be told long times
// because of others that have left. So it is learned, from how long they were told to stay away,
// and whether they were served after that.
type patience struct {
	// lost is the part of the callers that are not served, by the length of the promise to them, in
	// parts of lostWhole. It does not fall with that length.
	lost [promiseLengths]int64
	// kept is the virtual cost of the kept places, by the same.
	kept [promiseLengths]int64
}

const (
	lostWhole = 1 << 12
	// lostFades makes each caller count a quarter.
	lostFades = 4
	// promiseLengths are those that are told apart: to the second at first, then four in each power of
	// two, up to 34 minutes.
	promiseLengths = 40
)

// lengthOf is which of the promiseLengths a promise has.
func lengthOf(promise time.Duration) uint8 {
	seconds := uint64((promise + time.Second - 1) / time.Second)
	digits := bits.Len64(seconds)
	if digits < 3 {
		return uint8(seconds)
	}
	quarter := int(seconds>>(digits-3)) & 3
	return uint8(min(4*digits+quarter-8, promiseLengths-1))
}

// longest is the longest promise after which no more callers are lost than are served.
func (l *patience) longest() time.Duration {
	for length, lost := range l.lost {
		if lost > lostWhole/2 {
			return max(0, shortestOf(length)-time.Second)
		}
	}
	return forever
}

// shortestOf is the shortest promise, in whole seconds, of a length: see lengthOf.
func shortestOf(length int) time.Duration {
	seconds := length
	if length >= 4 {
		seconds = (4 + length%4) << (length/4 - 1)
	}
	return time.Duration(seconds) * time.Second
}

// doubted is how much of a virtual cost will probably not be used after a promise.
func (l *patience) doubted(virtual int64, length uint8) int64 {
	return muldiv.Floor(virtual, l.lost[length], lostWhole)
}

// allDoubted is that of all kept places.
func (l *patience) allDoubted() (sum int64) {
	for length, virtual := range l.kept {
		sum += l.doubted(virtual, uint8(length))
	}
	return sum
}

// learn notes whether a caller was served after a promise. One that was would have been after any
// shorter promise; one that was not, would not have been after any longer one.
func (l *patience) learn(length uint8, served bool) {
	if served {
		for i := range l.lost[:length+1] {
			l.lost[i] -= l.lost[i] / lostFades
		}
		return
	}
	for i := int(length); i < len(l.lost); i++ {
		l.lost[i] += (lostWhole - l.lost[i]) / lostFades
	}
}

// learnPatience notes for a leaf whether a caller that had a place was served.
func (t *tree) learnPatience(e *entry, served bool) {
	l := t.nodes[e.leaf].patience
	if l == nil {
		return
	}
	l.learn(e.length, served)
	t.doubt(e.leaf)
}

// doubt brings up to date how much of the kept places will probably not be used, for a leaf and all
// above it.
func (t *tree) doubt(i NodeID) {
	more := t.nodes[i].patience.allDoubted() - t.nodes[i].doubted
	for {
		t.nodes[i].doubted += more
		if i == Root {
			return
		}
		i = t.nodes[i].parent
	}
}

// expects is how much of a waiting call's virtual cost, or of a kept place's, will probably be used.
func (t *tree) expects(e *entry) int64 {
	if e.state != entryTicket {
		return e.virtual
	}
	return e.virtual - t.nodes[e.leaf].patience.doubted(e.virtual, e.length)
}
