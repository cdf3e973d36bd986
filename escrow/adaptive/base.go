package adaptive

import (
	"math"
	"slices"
	"time"
)

// Kind tells calls apart whose latencies differ without any queue.
type Kind struct {
	Model  string
	Stream bool
	// Tokens is the size of what is waited for: the prompt's where that is the first token,
	// else the answer's, if it has any.
	Tokens int64
}

// sort is a kind of which sizes differ by less than the half of a doubling.
type sort struct {
	model  string
	stream bool
	size   int8
}

func (k Kind) sort() sort {
	return sort{k.Model, k.Stream, int8(2 * math.Log2(float64(max(k.Tokens, 1))))}
}

const (
	// mostKinds bounds memory.
	mostKinds = 256
	// firstSeen is how many calls of a kind its base is first taken from. Until then it has none.
	firstSeen = 7
	// memory is how many calls the base is made of then, of which the older count less.
	memory = 128
	// few is how many of them count still when the limit is lowered to measure it.
	few = 4
)

// base is the time that a kind of call takes, in seconds, if nothing waits.
type base struct {
	level float64 // 0 while it is learned
	seen  []float64
	of    int // calls that it is made of, up to memory
	last  time.Time
	// Of the round:
	n   int
	sum float64
}

// learn takes in one of the first calls. A median, for the very first may have woken
// up a server.
func (b *base) learn(latency float64) {
	b.seen = append(b.seen, latency)
	if len(b.seen) == firstSeen {
		slices.Sort(b.seen)
		b.level = b.seen[firstSeen/2]
		b.of = firstSeen
		b.seen = nil
	}
}

// follow takes in the samples of the round.
func (b *base) follow() {
	b.of += b.n
	b.level += float64(b.n) / float64(b.of) * (b.sum/float64(b.n) - b.level)
	b.of = min(b.of, memory)
}

// bases are those of all kinds.
type bases map[sort]*base

func (bs bases) of(now time.Time, k Kind) *base {
	b := bs[k.sort()]
	if b == nil {
		if len(bs) >= mostKinds {
			bs.forgetOldest()
		}
		b = &base{}
		bs[k.sort()] = b
	}
	b.last = now
	return b
}

// forgetOldest makes room. Of those last seen at the same time it does not matter which
// goes, but it must be the same one each time: decisions follow from it.
func (bs bases) forgetOldest() {
	var oldest sort
	found := false
	for k, b := range bs {
		if !found || b.last.Before(bs[oldest].last) || b.last.Equal(bs[oldest].last) && before(k, oldest) {
			oldest = k
			found = true
		}
	}
	delete(bs, oldest)
}

func before(a, b sort) bool {
	if a.model != b.model {
		return a.model < b.model
	}
	if a.stream != b.stream {
		return a.stream
	}
	return a.size < b.size
}
