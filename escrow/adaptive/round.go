package adaptive

import (
	"math"
	"time"
)

// round collects the samples of calls that began under one limit.
type round struct {
	all, full int
	running   float64 // sum
	streams   tally
	plain     tally
	touched   []*base
	first     time.Time // when the first was seen,
	last      time.Time // and the last
}

// tally is how much longer calls took than their bases.
type tally struct {
	all, n       int // calls, and those of a known base
	sum, squares float64
	bases        float64 // sum
	vague        float64 // sum of 1 in so many that each base is made of
}

func (r *round) add(now time.Time, s *Sample, b, others *base) {
	r.all++
	r.running += float64(s.Running)
	if s.Full {
		r.full++
	}
	r.last = now
	if r.all == 1 {
		r.first = now
	}
	t := &r.plain
	if s.Kind.Stream {
		t = &r.streams
	}
	t.all++
	latency := s.Latency.Seconds()
	if b.level == 0 {
		b.learn(latency)
		b = others
		if b.level == 0 {
			b.learn(latency)
			return
		}
	}
	excess := latency - b.level
	t.n++
	t.sum = t.sum + excess
	t.squares = t.squares + excess*excess
	t.bases = t.bases + b.level
	t.vague = t.vague + 1/float64(b.of)
	if b.n == 0 {
		r.touched = append(r.touched, b)
	}
	b.n++
	b.sum += latency
}

// tally is the one to go by. The first token of a stream tells a queue from a server that
// is shared by more; the length of a whole answer does not, so it counts where streams
// are few.
func (r *round) tally() *tally {
	if 4*r.streams.all >= r.all {
		return &r.streams
	}
	return &r.plain
}

// known reports whether there is enough to compare with.
func (t *tally) known() bool { return t.n >= 3 && 2*t.n >= t.all }

// excess is the mean, and its standard error, of which a part is that of the base.
func (t *tally) excess() (mean, err float64) {
	n := float64(t.n)
	mean = t.sum / n
	variance := max(0, t.squares/n-mean*mean)
	return mean, math.Sqrt(variance/(n-1) + variance*t.vague/n)
}

// atOnce is how many ran, in the mean.
func (r *round) atOnce() float64 { return r.running / float64(r.all) }

// end lets bases follow the round, if it was at rest, and at once, if it was drained for
// that; those that are made of few calls still, if it was at least not busy.
func (r *round) end(rest, drained, busy bool) {
	for _, b := range r.touched {
		if drained {
			b.of = min(b.of, few)
		}
		if rest || !busy && b.of < memory {
			b.follow()
		}
		b.n = 0
		b.sum = 0
	}
}
