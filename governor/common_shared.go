package governor

import (
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// SharedLimits are a tenant's own limits, or those in one pool, that are kept together
// with other processes (Config.SharedLimits), for who speaks for them with these. It is
// for one goroutine.
type SharedLimits struct {
	q      *quota
	claims []parts.Claim // the last
}

// SharedLimits are those that have come into use, or of which a call lacks a part, since
// this was asked last. The same limits are always the same pointer. It is for one
// goroutine.
func (g *Governor) SharedLimits() (list []*SharedLimits) {
	if g.commons == nil {
		return nil
	}
	for _, q := range g.commons.take() {
		list = append(list, &q.common.handle)
	}
	return list
}

// SharedCalls are those that ask whether they may go, since this was asked last.
func (g *Governor) SharedCalls() []*SharedCall {
	if g.commons == nil {
		return nil
	}
	return g.commons.takeCalls()
}

// MoreLimits takes a word when there is something for SharedLimits, SharedCalls or SharedSlots to
// tell. It is nil if nothing is shared.
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

// What is asked for beyond what is used and waits: what comes in so many seconds if it
// comes as of late, and no less than the last call took.
const aheadSeconds = 3

// Asks reports whether calls ask for these limits before they go.
func (s *SharedLimits) Asks() bool {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	return s.q.common.asking
}

// Claims tells what is used and wanted, as of now, and not what it has of that. Busy says that calls run or wait, or
// that some came since the last claims, or were refused.
func (s *SharedLimits) Claims(now time.Time) (claims []parts.Claim, busy bool) {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	s.q.advanceLocked(now)
	return s.claimLocked(now)
}

// GiveUp is Claims, and gives up what the process may have and does not use.
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
	c.told, c.toldLet, c.at = c.taken, c.let, now
	c.lacks, c.refuses = false, false
	s.claims = make([]parts.Claim, 0, len(s.claims)) // the last ones may still be on their way
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

// claimLocked is one limit's. Of an axis of calls at once, those are wanted that may begin.
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

// Apply puts in force what the process may have until then, in answer to the last claims.
func (s *SharedLimits) Apply(now, until time.Time, list []parts.Part) {
	q := s.q
	q.mu.Lock()
	q.advanceLocked(now)
	q.common.alone, q.common.until = false, until
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
			q.common.parts[k], q.common.others[k] = p.Part, p.Others
			q.common.leaving[k].hear(now, p.Others)
			return
		}
	}
	if name == axisConcurrency {
		q.common.parts[ownAxes], q.common.others[ownAxes] = p.Part, p.Others
		return
	}
	for _, a := range q.caps {
		if name == a.periodName() {
			a.take(p)
			return
		}
	}
}

// Alone says that nobody answers. From the time on that the parts expire, and until there
// is an answer again, the process counts by itself.
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

// Rest reports whether nothing of the limits counts any more by itself, so that nobody
// needs to speak for them until SharedLimits tells of them again.
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

// wakeAndUnlock lets who is next in line look again.
func (q *quota) wakeAndUnlock() {
	q.line.wakeNext()
	q.mu.Unlock()
}
