package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// minutes is a counter that begins anew with every minute. The minutes turn a
// second after those of the scenarios, so that who leaves on the minute has left.
type minutes struct {
	number time.Duration
	used   int64
}

// turn begins the minute of a time, and says whether it is a new one.
func (m *minutes) turn(now time.Duration) bool {
	number := (now - turnsAfter) / escrow.Window
	if number == m.number {
		return false
	}
	*m = minutes{number: number}
	return true
}

func (m *minutes) end() time.Duration { return (m.number+1)*escrow.Window + turnsAfter }

const turnsAfter = time.Second

// fixedMinute is one counter a minute, first come first served: the tokens-a-minute
// limit of most gateways. LiteLLM's, which books an estimate at admission and corrects
// it at the end, begins its minute with the first call, others at the clock's; under
// load that is the same. A call that does not fit does not hold up those behind it.
type fixedMinute struct {
	limit int64
	minutes
}

func (r *fixedMinute) serve(f *foil) {
	r.turn(f.now)
	f.each(func(c *foilCall) bool {
		if r.used+c.most > r.limit {
			return false
		}
		r.used += c.most
		return true
	})
}

func (r *fixedMinute) ended(*foil, *foilCall, int64) {} // lengths are exact
func (r *fixedMinute) next(*foil) time.Duration      { return r.end() }

// afterwards is the same counter, moved when a call ends: a call goes as long as
// what has ended in this minute is below the limit. So count Agent Router (the
// cost of the response), Bifrost and APISIX. Calls that wait go one by one, so that
// those which take no time count before the next is looked at.
type afterwards struct {
	limit int64
	minutes
}

func (r *afterwards) serve(f *foil) {
	r.turn(f.now)
	first := true
	f.each(func(*foilCall) bool {
		goes := first && r.used < r.limit
		first = false
		return goes
	})
}

func (r *afterwards) ended(f *foil, _ *foilCall, took int64) {
	r.turn(f.now)
	r.used += took
}

func (r *afterwards) next(f *foil) time.Duration {
	if r.used < r.limit {
		return f.now
	}
	return r.end()
}

// tokenBuckets gives every tenant a token bucket of its own that fills at its
// weight's part of the limit: a static partition, as it is made with limits per key
// (Envoy, Kong, agentgateway) that add up to the provider's. A bucket holds ten
// seconds' worth, and one that is full lets a larger call go, into debt. Each
// tenant's calls go in order.
type tokenBuckets struct {
	limit  int64
	levels []float64
	at     time.Duration
}

const bucketSeconds = 10

func (r *tokenBuckets) rate(f *foil, leaf int) float64 {
	return f.share(leaf, r.limit) / escrow.Window.Seconds()
}

func (r *tokenBuckets) serve(f *foil) {
	for leaf := range f.weights {
		if leaf == len(r.levels) {
			r.levels = append(r.levels, bucketSeconds*r.rate(f, leaf))
		}
		rate := r.rate(f, leaf)
		r.levels[leaf] = min(r.levels[leaf]+rate*(f.now-r.at).Seconds(), bucketSeconds*rate)
	}
	r.at = f.now
	blocked := map[int]bool{}
	f.each(func(c *foilCall) bool {
		if blocked[c.leaf] || r.levels[c.leaf] < r.needs(f, c) {
			blocked[c.leaf] = true
			return false
		}
		r.levels[c.leaf] -= float64(c.most)
		return true
	})
}

func (r *tokenBuckets) needs(f *foil, c *foilCall) float64 {
	const rounding = 1e-6
	return min(float64(c.most), bucketSeconds*r.rate(f, c.leaf)) - rounding
}

func (r *tokenBuckets) ended(*foil, *foilCall, int64) {} // lengths are exact

func (r *tokenBuckets) next(f *foil) time.Duration {
	soonest := f.now + escrow.Window
	seen := map[int]bool{}
	for _, c := range f.waiting {
		if seen[c.leaf] {
			continue
		}
		seen[c.leaf] = true
		in := (r.needs(f, c) - r.levels[c.leaf]) / r.rate(f, c.leaf)
		soonest = min(soonest, f.now+time.Duration(max(0, in)*float64(time.Second))+time.Nanosecond)
	}
	return soonest
}

// windowedEscrow is weighted fair escrow in a fixed minute, as ThrottleKit
// publishes it. A tenant is active from its first check in a minute on. An active
// tenant's guarantee is its weight's part of the limit among the active. Within it a
// call goes; beyond it, it goes when what the others have of their guarantees
// still unused is not touched: it borrows. Each call is checked for itself.
type windowedEscrow struct {
	limit int64
	alone bool // nobody borrows
	minutes
	active map[int]int64 // what each active leaf has used
}

func (r *windowedEscrow) serve(f *foil) {
	if r.turn(f.now) || r.active == nil {
		r.active = map[int]int64{}
	}
	f.each(func(c *foilCall) bool {
		if !r.admits(f, c) {
			return false
		}
		r.active[c.leaf] += c.most
		r.used += c.most
		return true
	})
}

func (r *windowedEscrow) admits(f *foil, c *foilCall) bool {
	r.active[c.leaf] += 0 // it is active now, whatever is answered
	weights := int64(0)
	for leaf := range r.active {
		weights += f.weights[leaf]
	}
	guarantee := func(leaf int) int64 { return f.weights[leaf] * r.limit / weights }
	left := r.limit - r.used
	used := r.active[c.leaf]
	own := guarantee(c.leaf)
	switch {
	case c.most > left:
		return false
	case used+c.most <= own:
		return true
	case r.alone:
		return false
	}
	reserved := int64(0)
	for leaf, used := range r.active {
		if leaf != c.leaf {
			reserved += max(0, guarantee(leaf)-used)
		}
	}
	wanted := used + c.most - own
	surplus := max(0, left-reserved)
	return used+c.most <= own+min(wanted, c.most, surplus)
}

func (r *windowedEscrow) ended(*foil, *foilCall, int64) {} // lengths are exact
func (r *windowedEscrow) next(*foil) time.Duration      { return r.end() }

// roundRobin is deficit round robin (Shreedhar and Varghese, 1995): tenants in
// turn, each with a thousand tokens for every unit of weight, over an exact rolling
// minute. A call whose turn it is and that does not fit is waited for. pace, where it
// is positive, is how many seconds of the limit may go at once; without it, all may
// that the minute has room for.
type roundRobin struct {
	limit int64
	pace  float64

	minute  rolling
	level   float64 // of the pace
	at      time.Duration
	deficit []int64
	turn    int
	granted bool // the leaf whose turn it is has had its quantum
}

func (r *roundRobin) serve(f *foil) {
	r.minute.leave(f.now)
	r.level = min(r.level+r.perSecond()*(f.now-r.at).Seconds(), r.pace*r.perSecond())
	r.at = f.now
	for {
		c := r.choose(f)
		if c == nil || r.minute.sum+c.most > r.limit || r.pace > 0 && r.level < float64(c.most)-1e-6 {
			return
		}
		r.deficit[c.leaf] -= c.most
		r.level -= float64(c.most)
		r.minute.add(f.now, int32(c.h.Slot), c.most)
		f.each(func(other *foilCall) bool { return other == c })
	}
}

func (r *roundRobin) perSecond() float64 { return float64(r.limit) / escrow.Window.Seconds() }

// choose is the call whose turn it is.
func (r *roundRobin) choose(f *foil) *foilCall {
	for len(r.deficit) < len(f.weights) {
		r.deficit = append(r.deficit, 0)
	}
	for len(f.waiting) > 0 {
		leaf := r.turn
		head := head(f.waiting, leaf)
		if head != nil && !r.granted {
			r.granted = true
			r.deficit[leaf] += f.weights[leaf] // thousandths, so a thousand for each unit
		}
		if head != nil && head.most <= r.deficit[leaf] {
			return head
		}
		if head == nil {
			r.deficit[leaf] = 0
		}
		r.turn = (leaf + 1) % len(f.weights)
		r.granted = false
	}
	return nil
}

// head is the first call of a leaf.
func head(waiting []*foilCall, leaf int) *foilCall {
	for _, c := range waiting {
		if c.leaf == leaf {
			return c
		}
	}
	return nil
}

func (r *roundRobin) ended(*foil, *foilCall, int64) {} // lengths are exact

func (r *roundRobin) next(f *foil) time.Duration {
	c := r.choose(f)
	if r.minute.sum+c.most > r.limit {
		return r.minute.entries[r.minute.oldest].at + escrow.Window
	}
	in := (float64(c.most) - r.level) / r.perSecond()
	return f.now + time.Duration(max(0, in)*float64(time.Second)) + time.Nanosecond
}
