package shape

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

const (
	// grain is the part of a unit that flows, so that slow rates lose nothing by rounding. Per is cut into as many ticks, in each
	// of which a whole bucket loses as many grains as the Amount has units.
	grain = int64(1e6)
	// inflows is how many a bucket remembers, and perBucket how many of them a full bucket consists of at least.
	inflows   = 128
	perBucket = 32
	// rebase is when the count of grains begins anew. No bucket holds more.
	rebase = int64(1) << 60
)

// bucket is the account of a bucket that is filled by use, and drains at a steady rate.
//
// Its time is how much could have flowed out so far. The last inflows are remembered, because what is given back by a call that
// took less than it was booked at must not be what has drained already: then the levels are worked out anew. Bookings that are
// close to each other are one inflow, which counts as of the last of them.
type bucket struct {
	amount   int64 // so many units flow out of a whole bucket in Per
	capacity int64
	limit    int64 // how much of the capacity may be used here
	epoch    time.Time
	tick     time.Duration

	now   int64 // ticks since the epoch
	since int64 // the tick since which the limit holds
	out   int64 // grains that could flow out until then

	ring  [inflows]inflow
	last  int64 // number of the last inflow
	first int64 // when the last inflow began
	held  int64
}

// inflow is what flowed in at a time, in units, and how many grains were in the bucket then.
type inflow struct {
	at, units, level int64
	// most bounds the grains kept of those that had flowed in before, if the bucket became smaller then; 0 is no bound.
	most int64
}

func newBucket(now time.Time, r Rule) *bucket {
	b := &bucket{epoch: now, tick: (r.Per + time.Duration(grain) - 1) / time.Duration(grain), limit: r.Capacity()}
	b.Reshape(r)
	for i := range b.ring {
		b.ring[i].at = -rebase
	}
	return b
}

// Reshape changes rate and capacity. What is in the bucket stays there, so far as it holds as much; debt stays debt.
func (b *bucket) Reshape(r Rule) {
	b.settle()
	if r.Capacity() < b.capacity && b.limit > 0 {
		b.spill(muldiv.Ceil(r.Capacity(), b.limit, b.capacity))
	}
	b.amount = r.Amount
	b.capacity = r.Capacity()
	b.limit = min(b.limit, b.capacity)
}

// spill lets so much flow out that the usable part of a smaller bucket, whose size that is, is no more than full. What was beyond
// that of the larger one is owed still. It is noted as an inflow of nothing, because a booking may be given back later: then less
// has flowed out.
func (b *bucket) spill(usable int64) {
	owed := max(0, b.grains()-b.limit*grain)
	most := usable*grain + owed
	if b.grains() <= most {
		return
	}
	at := max(b.clock()+b.amount, b.at(b.last).at)
	b.last++
	*b.at(b.last) = inflow{at: at, most: most}
	b.refill(b.last)
}

func (b *bucket) SetLimit(usable int64) {
	limit := min(max(usable, 0), b.capacity)
	if limit == b.limit {
		return // settling loses a part of a grain
	}
	b.settle()
	b.limit = limit
}

// settle notes what could flow out until now, before the rate changes.
func (b *bucket) settle() {
	b.out = b.clock()
	b.since = b.now
}

// clock is the bucket's time: how much could have flowed out by now.
func (b *bucket) clock() int64 {
	if b.now == b.since {
		return b.out
	}
	whole := muldiv.Floor(b.amount, b.now-b.since, 1)
	return b.out + min(muldiv.Floor(whole, b.limit, b.capacity), rebase)
}

func (b *bucket) Advance(now time.Time) {
	b.now = max(b.now, int64(now.Sub(b.epoch)/b.tick))
	if shift := b.clock(); shift >= rebase {
		b.settle()
		b.out = 0
		b.first = max(b.first-shift, -2*rebase)
		for i := range b.ring {
			b.ring[i].at = max(b.ring[i].at-shift, -2*rebase)
		}
	}
}

// at is an inflow that is remembered.
func (b *bucket) at(number int64) *inflow { return &b.ring[number%inflows] }

// leftAt is how many grains of an inflow, and of those before it, are left at a time.
func (f *inflow) leftAt(at int64) int64 { return max(0, f.level-max(0, at-f.at)) }

// grains is how much is in the bucket now.
func (b *bucket) grains() int64 { return b.at(b.last).leftAt(b.clock()) }

func (b *bucket) Limit() int64 { return b.limit }

func (b *bucket) Used() int64 { return (b.grains()+grain-1)/grain + b.held }

func (b *bucket) Room() int64 { return b.limit - b.Used() }

func (b *bucket) Book(amount int64) { b.flowIn(b.clock(), amount) }

func (b *bucket) Slot() int64 { return b.last }

// BookAt counts, if there are later inflows, as of the last of them.
func (b *bucket) BookAt(at time.Time, amount int64) {
	ago := max(0, b.now-int64(at.Sub(b.epoch)/b.tick))
	past := b.clock() - min(muldiv.Floor(b.amount, ago, 1), rebase)
	b.flowIn(past, amount)
}

func (b *bucket) Owe(at time.Time, amount int64) { b.BookAt(at, amount) }

func (b *bucket) Bookings() []Booking {
	amount := b.Used() - b.held
	if amount <= 0 {
		return nil
	}
	return []Booking{{At: b.timeOf(b.now), Amount: amount}}
}

// flowIn counts an amount as of the end of the tick that begins at a time, unless there are later inflows.
func (b *bucket) flowIn(at, amount int64) {
	at = max(at+b.amount, b.at(b.last).at)
	if b.last == 0 || b.at(b.last).most > 0 || at-b.first > b.capacity*grain/perBucket {
		b.last++
		*b.at(b.last) = inflow{}
		b.first = at
	}
	f := b.at(b.last)
	f.at = at
	f.units = min(f.units+amount, rebase/grain)
	b.refill(b.last)
}

// refill works out the levels anew from an inflow on.
func (b *bucket) refill(from int64) {
	for i := from; i <= b.last; i++ {
		f := b.at(i)
		before := b.at(i - 1).leftAt(f.at - b.amount)
		if f.most > 0 {
			before = min(before, f.most)
		}
		f.level = min(before+f.units*grain, rebase)
	}
}

// Correct does nothing if so much has flowed in since that the booking is forgotten.
func (b *bucket) Correct(slot, by int64) {
	switch {
	case by > 0:
		b.Book(by)
	case slot > b.last-inflows+1:
		b.at(slot).units += by
		b.refill(slot)
	}
}

func (b *bucket) Hold(amount int64) { b.held += amount }

func (b *bucket) Drop(amount int64) { b.held -= amount }

func (b *bucket) FreeAt(amount int64) (time.Time, bool) {
	left := b.limit - b.held - amount // may be in the bucket still
	switch {
	case b.Room() >= amount:
		return b.timeOf(b.now), true
	case left < 0:
		return b.FullAt(), false
	}
	ticks := muldiv.Ceil(muldiv.Ceil(b.grains()-left*grain, b.capacity, b.limit), 1, b.amount)
	return b.timeAfter(ticks).Add(b.tick), true
}

// FullAt is for all of the limit, however much of it may be used here.
func (b *bucket) FullAt() time.Time { return b.timeAfter(muldiv.Ceil(b.grains(), 1, b.amount)) }

func (b *bucket) Ends() time.Time { return time.Time{} }

// timeAfter is when so many ticks are over; with large debt, or a very small part, they would take for ever.
func (b *bucket) timeAfter(ticks int64) time.Time {
	return b.timeOf(b.now + min(ticks, int64(MaxPer/b.tick)))
}

func (b *bucket) timeOf(tick int64) time.Time { return b.epoch.Add(time.Duration(tick) * b.tick) }
