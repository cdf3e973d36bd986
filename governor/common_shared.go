package governor

import (
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// SharedLimits are a tenant's own limits, over all pools or in one, as seen by whoever talks to the
// store that keeps them together with other processes (Config.SharedLimits). A value is for one
// goroutine.
type SharedLimits struct {
	q      *quota
	claims []parts.Claim // as last made
}

// SharedLimits returns the limits that have come into use, or of which a call lacks a part, since
// it was last called. The same limits are always the same pointer. It is for one goroutine.
func (g *Governor) SharedLimits() (list []*SharedLimits) {
	if g.commons == nil {
		return nil
	}
	for _, q := range g.commons.take() {
		list = append(list, &q.common.handle)
	}
	return list
}

// SharedCalls returns the calls that have asked whether they may go since it was last called.
func (g *Governor) SharedCalls() []*SharedCall {
	if g.commons == nil {
		return nil
	}
	return g.commons.takeCalls()
}

// MoreLimits returns a channel that holds an element when SharedLimits, SharedCalls or SharedSlots
// has something to return. It is nil if nothing is shared.
func (g *Governor) MoreLimits() <-chan struct{} {
	if g.commons == nil {
		return nil
	}
	return g.commons.more
}

// Owner names the limits to other processes.
func (s *SharedLimits) Owner() string {
	if s.q.pool == "" {
		return s.q.owner
	}
	return s.q.owner + " in " + s.q.pool
}

// Beyond what is used and waited for, claims ask for what comes in aheadSeconds at the present
// rate, and for no less than the last call took.
const aheadSeconds = 3

// Asks reports whether there are calls that ask before they go by these limits.
func (s *SharedLimits) Asks() bool {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	return s.q.common.asking
}

// Claims states what is used and wanted now, but not which parts this process has: the caller knows
// that. busy says that calls run or wait, or that some came or were refused since the last claims.
func (s *SharedLimits) Claims(now time.Time) (claims []parts.Claim, busy bool) {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	s.q.advanceLocked(now)
	return s.claimLocked(now)
}

// GiveUp is Claims, and gives up all of the parts that is not used.
func (s *SharedLimits) GiveUp(now time.Time) (claims []parts.Claim) {
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	claims, _ = s.claimLocked(now)
	for k := range q.common.parts {
		q.common.parts[k] = min(q.common.parts[k], q.common.known[k])
	}
	for _, a := range q.caps {
		a.part = min(a.part, a.known)
	}
	q.limitLocked()
	return claims
}

func (s *SharedLimits) claimLocked(now time.Time) (claims []parts.Claim, busy bool) {
	q, c := s.q, s.q.common
	lacks := c.lacks || len(q.line.calls) > 0
	busy = q.running > 0 || lacks
	if dt := now.Sub(c.at).Seconds(); !c.at.IsZero() && dt > 0 {
		for k, n := range c.taken {
			c.rate[k] += (float64(n-c.told[k])/dt - c.rate[k]) * min(1, dt/aheadSeconds)
		}
	}
	busy = busy || c.taken != c.told || c.let != c.toldLet || c.refuses
	c.told = c.taken
	c.toldLet = c.let
	c.at = now
	c.lacks = false
	c.refuses = false
	s.claims = make([]parts.Claim, 0, len(s.claims)) // the last ones may still be in transit
	waiting, calls := q.line.wanting()
	ahead := busy && c.leased
	for k, l := range q.ledgers {
		if l != nil {
			s.claims = append(s.claims, q.claimLocked(k, parts.Rolling, q.limits[k], l.Used(), waiting[k], ahead))
		}
	}
	if q.concurrency > 0 {
		s.claims = append(s.claims, q.claimLocked(ownAxes, parts.Slots, q.concurrency, q.running, calls, ahead))
	}
	for _, a := range q.caps {
		s.claims = append(s.claims, a.claim(now, ahead, lacks && c.leased, c.rate[ownAxes]*aheadSeconds+float64(calls)))
	}
	return s.claims, busy
}

// claimLocked is the claim on one limit, of which waiting is wanted by calls in line. ahead asks
// for more in advance.
func (q *quota) claimLocked(axis int, kind parts.Kind, limit, used, waiting int64, ahead bool) parts.Claim {
	c := q.common
	c.known[axis] = used
	claim := parts.Claim{Name: axisConcurrency, Kind: kind, Limit: limit, Used: used, Want: used + waiting}
	if axis < ownAxes {
		claim.Name = ownAxisName[axis]
	}
	if ahead {
		claim.Want += max(c.last[axis], int64(c.rate[axis]*aheadSeconds))
	}
	if first := q.line.first(); first != nil && !first.asks {
		need := int64(1)
		if axis < ownAxes {
			need = first.cost[axis]
		}
		claim.Need = used + need
	}
	claim.Want = min(limit, max(claim.Want, claim.Need))
	return claim
}

// Apply puts in force the answer to the last claims, which holds until the given time.
func (s *SharedLimits) Apply(now, until time.Time, list []parts.Part) {
	q := s.q
	q.mu.Lock()
	q.advanceLocked(now)
	q.common.alone = false
	q.common.until = until
	for i, p := range list[:min(len(list), len(s.claims))] {
		q.takePartLocked(now, s.claims[i].Name, p)
	}
	q.limitLocked()
	q.hearLocked()
	q.wakeAndUnlock()
}

func (q *quota) takePartLocked(now time.Time, name string, p parts.Part) {
	for k, axis := range ownAxisName {
		if axis == name {
			q.common.parts[k] = p.Part
			q.common.others[k] = p.Others
			q.common.leaving[k].hear(now, p.Others)
			return
		}
	}
	if name == axisConcurrency {
		q.common.parts[ownAxes] = p.Part
		q.common.others[ownAxes] = p.Others
		return
	}
	for _, a := range q.caps {
		if name == a.periodName() {
			a.take(p)
			return
		}
	}
}

// Alone says that nobody answers. Once the parts have expired, and until Apply, this process counts
// by itself against the whole limits.
func (s *SharedLimits) Alone(now time.Time) {
	q := s.q
	q.mu.Lock()
	q.advanceLocked(now)
	q.hearLocked()
	if now.Before(q.common.until) {
		q.mu.Unlock()
		return
	}
	q.common.alone = true
	q.limitLocked()
	q.wakeAndUnlock()
}

// Rest reports whether nobody needs to speak for the limits until SharedLimits returns them again:
// no call runs or waits, and nothing worth mentioning is used. What this process held of them is
// then given up.
func (s *SharedLimits) Rest(now time.Time) bool {
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	if q.running > 0 || len(q.line.calls) > 0 || q.common.taken != q.common.told || q.common.let != q.common.toldLet || q.common.lacks || q.common.refuses {
		return false
	}
	for k, l := range q.ledgers {
		if l != nil && !parts.Crumb(l.Used(), q.limits[k]) {
			return false
		}
	}
	q.common.inUse = false
	q.dropPartsLocked()
	return true
}

// wakeAndUnlock lets the first in line look again.
func (q *quota) wakeAndUnlock() {
	q.line.wakeNext()
	q.mu.Unlock()
}
