package adaptive

import "time"

// Law is how a limit moves.
type Law uint8

// The laws. A Fixed limit does not move.
const (
	Fixed Law = iota
	Gradient
	AIMD
)

func (l Law) String() string { return [...]string{"fixed", "gradient", "aimd"}[l] }

// Config holds the bounds of a limit: 1 ≤ Min ≤ Max.
type Config struct {
	Law      Law
	Min, Max int64
}

// within brings a limit within the bounds.
func (c *Config) within(limit int64) int64 { return min(max(limit, c.Min), c.Max) }

// Sample is the experience of one call with the upstream.
type Sample struct {
	Kind Kind
	// Began is when it was sent, and Running how many were in flight then, it included.
	Began   time.Time
	Running int64
	// Full says that no other could have been sent then, or that one could not since.
	Full bool
	// Latency is how long it took until the first token, or until the end where that is
	// all there is to see.
	Latency time.Duration
}

// Limiter is a limit that moves. It is not safe for concurrent use.
type Limiter struct {
	cfg    Config
	limit  float64
	round  round
	bases  bases
	others [2]base // of calls whose kind is not known yet; of streams, and of whole answers

	run     float64 // seconds that calls run, a moving average; 0 before the first
	ramping bool    // nothing was ever busy
	found   float64 // the limit at the knee that was found last,
	hold    int     // and for how many rounds it is kept
	fall    fall
	refused float64 // part of the last calls that the upstream refused

	before   seen      // in the last round
	draining bool      // the round is one that measures at rest
	rested   time.Time // when the last such was, or a light one,
	restedAt float64   // and how many ran then
	changed  time.Time // when the limit was; zero before the first change

	servers servers
}

// New returns a limit that begins at its least.
func New(cfg Config) *Limiter {
	return &Limiter{cfg: cfg, limit: float64(cfg.Min), ramping: true, bases: bases{}}
}

// Begin begins at what runs already, within the bounds: where a limit that stood still becomes
// one that moves, calls go on as they do.
func (l *Limiter) Begin(running int64) { l.set(float64(running)) }

// Configure changes law and bounds. The limit stays, as far as the bounds let it, and so do the bases.
func (l *Limiter) Configure(cfg Config) {
	if cfg == l.cfg {
		return
	}
	l.cfg = cfg
	l.draining = false
	l.set(l.limit)
}

// Limit is how many calls may be in flight.
func (l *Limiter) Limit() int64 {
	limit := l.limit
	if l.draining {
		limit = drained * limit
	}
	return l.cfg.within(int64(limit + 0.5))
}

// set moves the limit, within its bounds.
func (l *Limiter) set(limit float64) {
	l.limit = min(max(limit, float64(l.cfg.Min)), float64(l.cfg.Max))
}

// Ended tells how long a call was in flight, whatever became of it.
func (l *Limiter) Ended(ran time.Duration) {
	if ran <= 0 {
		return // the clock was put back
	}
	s := ran.Seconds()
	if l.run == 0 {
		l.run = s
	}
	l.run += (s - l.run) / 16
}

// Overloaded tells that the upstream refused a call for want of capacity, or did not
// answer it in time. It counts if that comes of more than a few calls. All that were sent
// under one limit say so once.
func (l *Limiter) Overloaded(now, began time.Time) {
	if began.Before(l.changed) {
		return
	}
	l.refused += (1 - l.refused) / refusedOf
	if l.refused < refusals {
		return
	}
	l.refused = 0
	l.set(l.limit * overloadCut)
	l.settle()
	l.turn(now, true)
}

// Observe records the sample of a call.
func (l *Limiter) Observe(now time.Time, s Sample) {
	if s.Latency <= 0 || s.Began.Before(l.changed) {
		return
	}
	l.refused -= l.refused / refusedOf
	if l.rested.IsZero() {
		l.rested = now
	}
	if patience := max(time.Minute, time.Duration(2*l.run*float64(time.Second))); now.Sub(l.round.last) > patience {
		l.round = round{} // its first calls are of another time
	}
	others := &l.others[0]
	if !s.Kind.Stream {
		others = &l.others[1]
	}
	l.round.add(now, &s, l.bases.of(now, s.Kind), others)
	if l.full() {
		l.judge(now)
	}
}

// full reports whether the round has seen enough. Half of it is enough where too many wait upstream plainly,
// because all that come until it ends would wait, too.
func (l *Limiter) full() bool {
	r := &l.round
	if r.all >= mostCalls {
		return true
	}
	if r.last.Sub(r.first) < leastRound {
		return false
	}
	enough := int(min(max(l.limit/2, fewestCalls), enoughCalls))
	if r.all >= enough {
		return true
	}
	if l.draining || r.all != max(enough/2, fewestCalls) {
		return false
	}
	v, known := l.view()
	return known && v.atOnce > light*l.limit && v.busy(l.cfg.Law, plain)
}

// Calls that come quickly are short, so that what they wait is a large part of how long they
// run: then a round is made of more of them.
const (
	leastRound  = time.Second
	fewestCalls = 5
	enoughCalls = 32
	mostCalls   = 256
)

// turn begins another round; moved says that the limit is another.
func (l *Limiter) turn(now time.Time, moved bool) {
	l.round = round{}
	if moved {
		l.changed = now
	}
}
