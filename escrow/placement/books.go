package placement

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/internal/lib/affinity"
)

// Books are a pool's upstreams, as its escrow.Pool asks for them. Nil are those of a pool whose upstreams have no limits of
// their own.
type Books[L Limits] struct {
	List []*Upstream[L]

	gone  []*Upstream[L] // left the list lately; their books are kept for their return
	calls []call[L]      // by the slot of their escrow handles
	// holds says that the provider counts tokens later than at admission. A running call then counts all the time, and
	// for a minute after its end, which is never less than the provider counts.
	holds bool

	candidates []affinity.Candidate // room for those of one choice
}

// call is a running call.
type call[L Limits] struct {
	at    *Upstream[L]
	hold  limits.Hold
	began time.Time
}

var _ escrow.Upstreams = (*Books[Account])(nil)

// Axes are the axes of other limits, by those of pools.
var Axes = [escrow.Rolling]limits.Axis{
	escrow.Tokens: limits.Tokens, escrow.Requests: limits.Requests, escrow.Input: limits.Input, escrow.Output: limits.Output,
}

// CostOf is a cost of a pool as other limits count it.
func CostOf(c escrow.Cost) (own limits.Cost) {
	for k, of := range Axes {
		own[of] = c[k]
	}
	return own
}

// PoolCost is a cost as a pool counts it.
func PoolCost(own limits.Cost) (c escrow.Cost) {
	for k, of := range Axes {
		c[k] = own[of]
	}
	return c
}

// Able are those of some upstreams that take the whole of a call, or, if there are none, those that take most of it.
func (b *Books[L]) Able(among escrow.Mask, c escrow.Cost) (able escrow.Mask) {
	most := int64(0)
	b.Each(among, func(_ int, u *Upstream[L]) {
		most = max(most, u.takes(c))
	})
	b.Each(among, func(i int, u *Upstream[L]) {
		if u.takes(c) == most {
			able = able.With(i)
		}
	})
	return able
}

// Choose picks an upstream with room for a call: of the lowest order, there the one where its conversation goes, or, without a
// conversation, by weight.
func (b *Books[L]) Choose(now time.Time, among escrow.Mask, c escrow.Cost, of uint64) (index int, ok bool) {
	list := b.withRoom(now, among, CostOf(c))
	switch {
	case len(list) == 0:
		return 0, false
	case of == uint64(affinity.None):
		return b.next(list), true
	}
	return affinity.Home(list, affinity.Conversation(of)).Index, true
}

// Home is where a conversation goes if all of some upstreams have room that are not closed.
func (b *Books[L]) Home(now time.Time, among escrow.Mask, of uint64) (index int) {
	list := b.lowest(among, func(u *Upstream[L]) bool { return !now.Before(u.Closed) })
	for i := range list {
		list[i].Running = 0
	}
	return affinity.Home(list, affinity.Conversation(of)).Index
}

// withRoom are the upstreams of the lowest order with room for a cost.
func (b *Books[L]) withRoom(now time.Time, among escrow.Mask, c limits.Cost) []affinity.Candidate {
	return b.lowest(among, func(u *Upstream[L]) bool {
		_, lacks := u.lacks(now, c)
		return !lacks
	})
}

// lowest are those of some upstreams that are open, of the lowest order with one.
func (b *Books[L]) lowest(among escrow.Mask, open func(*Upstream[L]) bool) []affinity.Candidate {
	list := b.candidates[:0]
	lowest := int64(math.MaxInt64)
	b.Each(among, func(i int, u *Upstream[L]) {
		if u.Order > lowest || !open(u) {
			return
		}
		if u.Order < lowest {
			lowest = u.Order
			list = list[:0]
		}
		list = append(list, affinity.Candidate{Index: i, Seed: u.seed, Weight: max(u.Weight, 1), Running: u.running})
	})
	b.candidates = list
	return list
}

// next is the one of some upstreams whose turn it is.
func (b *Books[L]) next(list []affinity.Candidate) (index int) {
	best := math.Inf(1)
	for _, c := range list {
		if turn := b.List[c.Index].turn; turn < best {
			best = turn
			index = c.Index
		}
	}
	return index
}

// Lack is what the upstreams lack for a call, and when the first of them may have it.
func (b *Books[L]) Lack(now time.Time, among escrow.Mask, c escrow.Cost) (escrow.Axis, time.Time) {
	cost := CostOf(c)
	axis := escrow.Slots
	first := time.Time{}
	b.Each(among, func(_ int, u *Upstream[L]) {
		lacked, lacks := u.lacks(now, cost)
		if !lacks {
			return
		}
		at := u.roomAt(now, cost)
		if k := slices.Index(Axes[:], lacked); k >= 0 && axis == escrow.Slots {
			axis = escrow.Axis(k)
		}
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	})
	return axis, first
}

// Wait is how long it takes until the first upstream has room, each after its part of all that goes before.
func (b *Books[L]) Wait(now time.Time, among escrow.Mask, c, ahead escrow.Cost) time.Duration {
	least := time.Duration(math.MaxInt64)
	limit := limits.Cost{}
	open := false
	b.Each(among, func(_ int, u *Upstream[L]) {
		limit = limit.Plus(u.Spec.Limits().Minute, 1)
	})
	b.Each(among, func(_ int, u *Upstream[L]) {
		if now.Before(u.Closed) {
			return
		}
		open = true
		total := CostOf(c)
		before := CostOf(ahead)
		for k, own := range u.Spec.Limits().Minute {
			if own > 0 {
				total[k] += int64(float64(before[k]) * float64(own) / float64(limit[k]))
			}
		}
		least = min(least, u.Limits.WaitFor(now, total))
	})
	if !open {
		return 0 // nobody knows; whoever waits goes when one of them is back
	}
	return least
}

// Begin books a call at an upstream.
func (b *Books[L]) Begin(now time.Time, slot uint32, index int, c escrow.Cost) {
	for int(slot) >= len(b.calls) {
		b.calls = append(b.calls, call[L]{})
	}
	u := b.List[index]
	latest := 0.0
	longest := 0.0
	for _, o := range b.List {
		if o.Order == u.Order {
			latest = max(latest, o.turn)
			longest = max(longest, o.step())
		}
	}
	u.turn = max(u.turn, latest-longest) + u.step() // one that was full does not catch up
	u.running++
	b.calls[slot] = call[L]{at: u, hold: u.Limits.Book(now, CostOf(c), b.holds), began: now}
}

// End replaces what a call was booked at by what it took.
func (b *Books[L]) End(now time.Time, slot uint32, actual escrow.Cost) {
	u := b.At(slot)
	if u == nil {
		return // it began before the pool had upstreams with limits
	}
	c := &b.calls[slot]
	u.running--
	u.Ended += actual[escrow.Requests]
	u.Tokens += actual[escrow.Tokens]
	ran := time.Duration(0)
	if actual[escrow.Requests] > 0 {
		ran = now.Sub(c.began)
	}
	u.Limits.Settle(now, &c.hold, CostOf(actual), ran)
	*c = call[L]{}
}

// At is the upstream where a call runs; nil if there is none.
func (b *Books[L]) At(slot uint32) *Upstream[L] {
	if b == nil || int(slot) >= len(b.calls) {
		return nil
	}
	return b.calls[slot].at
}

// Mask is a set of upstreams by their index in the list, which may have bits of others: all, if none of the list is among them.
func (b *Books[L]) Mask(via uint64) escrow.Mask {
	if b == nil {
		return 0
	}
	all := escrow.Mask(1)<<len(b.List) - 1
	if some := escrow.Mask(via) & all; some != 0 {
		return some
	}
	return all
}

// Place is the index of the upstream with a name; -1 if the list has none.
func (b *Books[L]) Place(name string) int {
	return slices.IndexFunc(b.List, func(u *Upstream[L]) bool { return u.Name == name })
}

// Named is the set of the upstreams with some names; nil is all.
func (b *Books[L]) Named(names []string) (some escrow.Mask) {
	if names == nil {
		return b.Mask(0)
	}
	for _, name := range names {
		if at := b.Place(name); at >= 0 {
			some = some.With(at)
		}
	}
	return some
}

// MaskOf is a set of upstreams by their index in a list of names; nil is the books' own list. It is all, if none of them is there.
func (b *Books[L]) MaskOf(names []string, via uint64) escrow.Mask {
	if b == nil || names == nil || via == 0 {
		return b.Mask(via)
	}
	some := escrow.Mask(0)
	for i, name := range names {
		if via&(1<<i) == 0 {
			continue
		}
		if at := b.Place(name); at >= 0 {
			some = some.With(at)
		}
	}
	return b.Mask(uint64(some))
}

// Each calls a function with the upstreams of a mask, by their index.
func (b *Books[L]) Each(among escrow.Mask, do func(i int, u *Upstream[L])) {
	for left := among; left != 0; left &= left - 1 {
		if i := bits.TrailingZeros64(uint64(left)); i < len(b.List) {
			do(i, b.List[i])
		}
	}
}
