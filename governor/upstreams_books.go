package governor

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// costOf is a cost of the pool as own limits count it.
func costOf(c escrow.Cost) limits.Cost {
	return limits.Cost{limits.Requests: c[escrow.Requests], limits.Tokens: c[escrow.Tokens]}
}

// lacks reports whether an upstream has no room for a call, and of which axis.
func (u *upstream) lacks(now time.Time, c limits.Cost) (axis limits.Axis, lacks bool) {
	if now.Before(u.closed) {
		return limits.Tokens, true
	}
	u.own.mu.Lock()
	defer u.own.mu.Unlock()
	u.own.advanceLocked(now)
	axis, fits := u.own.set.Fits(u.own.set.Clip(c))
	return axis, !fits
}

// Choose picks an upstream with room for a call: of the lowest order, there by weight.
func (s *poolUpstreams) Choose(now time.Time, among escrow.Mask, c escrow.Cost) (index int, ok bool) {
	cost := costOf(c)
	var best *upstream
	s.each(among, func(i int, u *upstream) {
		if best != nil && (u.Order > best.Order || u.Order == best.Order && u.turn >= best.turn) {
			return
		}
		if _, lacks := u.lacks(now, cost); !lacks {
			best = u
			index = i
		}
	})
	return index, best != nil
}

// Lack is what the upstreams lack for a call, and when the first of them may have it. It asks for a larger part of
// limits that are shared.
func (s *poolUpstreams) Lack(now time.Time, among escrow.Mask, c escrow.Cost) (escrow.Axis, time.Time) {
	cost := costOf(c)
	axis := escrow.Slots
	first := time.Time{}
	s.each(among, func(_ int, u *upstream) {
		lacked, lacks := u.lacks(now, cost)
		if !lacks {
			return
		}
		at := u.closed
		if !now.Before(u.closed) {
			at = u.own.roomAt(cost)
		}
		if lacked != limits.Concurrency && axis == escrow.Slots {
			axis = escrow.Tokens
			if lacked == limits.Requests {
				axis = escrow.Requests
			}
		}
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	})
	return axis, first
}

// roomAt is when rolling limits may have room for a cost that they lack; zero if only the end of a call or a larger grant tells.
func (o *ownLimits) roomAt(c limits.Cost) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.announceLocked()
	c = o.set.Clip(c)
	o.askForMoreLocked(c)
	at, _ := o.set.RoomAt(c)
	return at
}

// coming reports whether a call lacks nothing of upstreams but a larger part of limits that are shared.
func (s *poolUpstreams) coming(now time.Time, call *escrow.Call) (lacksGrant bool) {
	if s == nil {
		return false
	}
	if _, has := s.Choose(now, call.Via, call.Most); has {
		return false
	}
	cost := costOf(call.Most)
	s.each(call.Via, func(_ int, u *upstream) {
		u.own.mu.Lock()
		defer u.own.mu.Unlock()
		lacksGrant = lacksGrant || !now.Before(u.closed) && u.own.set.Coming(u.own.set.Clip(cost))
	})
	return lacksGrant
}

// Wait is how long it takes until the first upstream has room, each after its part of all that goes before.
func (s *poolUpstreams) Wait(now time.Time, among escrow.Mask, c, ahead escrow.Cost) time.Duration {
	least := time.Duration(math.MaxInt64)
	limit := limits.Cost{}
	open := false
	s.each(among, func(_ int, u *upstream) {
		limit[limits.Tokens] += u.TPM
		limit[limits.Requests] += u.RPM
	})
	s.each(among, func(_ int, u *upstream) {
		if now.Before(u.closed) {
			return
		}
		open = true
		total := costOf(c)
		before := costOf(ahead)
		for k, own := range (limits.Cost{limits.Tokens: u.TPM, limits.Requests: u.RPM}) {
			if own > 0 {
				total[k] += int64(float64(before[k]) * float64(own) / float64(limit[k]))
			}
		}
		u.own.mu.Lock()
		defer u.own.mu.Unlock()
		u.own.advanceLocked(now)
		least = min(least, u.own.set.WaitFor(total))
	})
	if !open {
		return 0 // nobody knows; whoever waits goes when one of them is back
	}
	return least
}

// Begin books a call at an upstream.
func (s *poolUpstreams) Begin(now time.Time, slot uint32, index int, c escrow.Cost) {
	for int(slot) >= len(s.calls) {
		s.calls = append(s.calls, upstreamCall{})
	}
	u := s.list[index]
	latest := 0.0
	for _, o := range s.list {
		if o.Order == u.Order {
			latest = max(latest, o.turn)
		}
	}
	u.turn = max(u.turn, latest-1) + 1/float64(max(u.Weight, 1)) // one that was full does not catch up
	o := u.own
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advanceLocked(now)
	o.announceLocked()
	call := upstreamCall{at: u, hold: o.set.Book(o.set.Clip(costOf(c))), began: now}
	if s.holds {
		o.set.Suspend(&call.hold)
	}
	s.calls[slot] = call
}

// End replaces what a call was booked at by what it took.
func (s *poolUpstreams) End(now time.Time, slot uint32, actual escrow.Cost) {
	if int(slot) >= len(s.calls) || s.calls[slot].at == nil {
		return // it began before the pool had upstreams with limits
	}
	call := &s.calls[slot]
	u := call.at
	u.ended += actual[escrow.Requests]
	u.tokens += actual[escrow.Tokens]
	ran := time.Duration(0)
	if actual[escrow.Requests] > 0 {
		ran = now.Sub(call.began)
	}
	u.own.mu.Lock()
	u.own.advanceLocked(now)
	u.own.set.Settle(&call.hold, costOf(actual), ran)
	u.own.mu.Unlock()
	*call = upstreamCall{}
}

// remember books what earlier processes used of the pool at each of its upstreams, because nobody knows at which it was.
func (s *poolUpstreams) remember(now, began, ended time.Time, booked, took escrow.Cost) {
	if s == nil {
		return
	}
	first := costOf(booked)
	whole := costOf(took)
	for _, u := range s.list {
		u.own.mu.Lock()
		u.own.advanceLocked(now)
		u.own.set.Remember(began, ended, &first, &whole)
		u.own.mu.Unlock()
	}
}

// upstreamLocked is the name of the upstream where a call runs; "" if the pool's upstreams have no limits of their own.
func (p *pool) upstreamLocked(h escrow.Handle) string {
	if p.upstreams == nil || int(h.Slot) >= len(p.upstreams.calls) || p.upstreams.calls[h.Slot].at == nil {
		return ""
	}
	return p.upstreams.calls[h.Slot].at.Name
}
