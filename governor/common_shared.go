package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/parts"
)

// SharedLimits are a tenant's own limits, over all pools or in one, as seen by whoever talks to the
// store that keeps them together with other processes (Config.SharedLimits). A value is for one
// goroutine.
type SharedLimits struct {
	own    *ownLimits
	claims []parts.Claim // as last made
}

// SharedLimits returns the limits that have come into use, or of which a call lacks a part, since
// it was last called. The same limits are always the same pointer. It is for one goroutine.
func (g *Governor) SharedLimits() (list []*SharedLimits) {
	if g.commons == nil {
		return nil
	}
	for _, o := range g.commons.take() {
		list = append(list, &o.common.handle)
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
	if s.own.pool == "" {
		return s.own.owner
	}
	return s.own.owner + " in " + s.own.pool
}

// Beyond what is used and waited for, claims ask for what comes in aheadSeconds at the present
// rate, and for no less than the last call took.
const aheadSeconds = 3

// Asks reports whether there are calls that ask before they go by these limits.
func (s *SharedLimits) Asks() bool {
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	return s.own.common.asking
}

// Claims states what is used and wanted now, but not which parts this process has: the caller knows
// that. busy says that calls run or wait, or that some came or were refused since the last claims.
func (s *SharedLimits) Claims(now time.Time) (claims []parts.Claim, busy bool) {
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	s.own.advanceLocked(now)
	return s.claimLocked(now)
}

// GiveUp is Claims, and gives up all of the parts that is not used.
func (s *SharedLimits) GiveUp(now time.Time) (claims []parts.Claim) {
	o := s.own
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advanceLocked(now)
	claims, _ = s.claimLocked(now)
	for k := range limits.Axis(limits.Axes) {
		o.set.Allow(k, min(o.set.Granted(k), o.common.known[k]))
	}
	for _, a := range o.caps {
		a.part = min(a.part, a.known)
	}
	o.limitCapsLocked()
	return claims
}

func (s *SharedLimits) claimLocked(now time.Time) (claims []parts.Claim, busy bool) {
	o := s.own
	c := o.common
	lacks, refuses := o.set.Asked()
	waiting, _ := o.set.InLine()
	lacks = lacks || waiting > 0
	traffic := o.set.Traffic()
	busy = o.set.Running() > 0 || lacks || traffic != c.told || refuses
	c.smooth(now, traffic)
	o.set.Noted()
	s.claims = make([]parts.Claim, 0, len(s.claims)) // the last ones may still be in transit
	ahead := busy && c.leased
	for k := range limits.Axis(limits.Axes) {
		if o.set.Limit(k) > 0 {
			s.claims = append(s.claims, c.claim(k, o.set.Demand(k), ahead))
		}
	}
	calls := c.rate[limits.Concurrency]*aheadSeconds + float64(o.set.Demand(limits.Concurrency).Waiting)
	for _, a := range o.caps {
		s.claims = append(s.claims, a.claim(now, ahead, lacks && c.leased, calls))
	}
	return s.claims, busy
}

// smooth learns from the calls since the last claims what calls take in a second.
func (c *common) smooth(now time.Time, t limits.Traffic) {
	dt := now.Sub(c.at).Seconds()
	if !c.at.IsZero() && dt > 0 {
		for k, n := range t.Taken {
			c.rate[k] += (float64(n-c.told.Taken[k])/dt - c.rate[k]) * min(1, dt/aheadSeconds)
		}
	}
	c.told = t
	c.at = now
}

// claim is the claim on one limit. ahead asks for more in advance.
func (c *common) claim(k limits.Axis, d limits.Demand, ahead bool) parts.Claim {
	c.known[k] = d.Used
	claim := parts.Claim{Name: k.String(), Kind: parts.Rolling, Limit: d.Limit, Used: d.Used, Want: d.Used + d.Waiting}
	if k == limits.Concurrency {
		claim.Kind = parts.Slots
	}
	if ahead {
		claim.Want += max(d.Last, int64(c.rate[k]*aheadSeconds))
	}
	if d.Queued {
		claim.Need = d.Used + d.First
	}
	claim.Want = min(d.Limit, max(claim.Want, claim.Need))
	return claim
}

// axisNamed is the axis of a name.
func axisNamed(name string) (limits.Axis, bool) {
	for k := range limits.Axis(limits.Axes) {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// Apply puts in force the answer to the last claims, which holds until the given time.
func (s *SharedLimits) Apply(now, until time.Time, list []parts.Part) {
	o := s.own
	o.mu.Lock()
	o.advanceLocked(now)
	o.set.Renew(until)
	for i, p := range list[:min(len(list), len(s.claims))] {
		o.takePartLocked(s.claims[i].Name, p)
	}
	o.limitCapsLocked()
	o.hearLocked()
	o.wakeLocked()
	o.mu.Unlock()
}

func (o *ownLimits) takePartLocked(name string, p parts.Part) {
	if k, ok := axisNamed(name); ok {
		o.set.Allow(k, p.Part)
		o.set.Elsewhere(k, p.Others)
		return
	}
	for _, a := range o.caps {
		if name == a.periodName() {
			a.take(p)
			return
		}
	}
}

// Alone says that nobody answers. Once the parts have expired, and until Apply, this process counts
// by itself against the whole limits.
func (s *SharedLimits) Alone(now time.Time) {
	o := s.own
	o.mu.Lock()
	o.advanceLocked(now)
	defer o.mu.Unlock()
	o.hearLocked()
	if !o.set.Alone() {
		return
	}
	o.limitCapsLocked()
	o.wakeLocked()
}

// Rest reports whether nobody needs to speak for the limits until SharedLimits returns them again:
// no call runs or waits, and nothing worth mentioning is used. What this process held of them is
// then given up.
func (s *SharedLimits) Rest(now time.Time) bool {
	o := s.own
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advanceLocked(now)
	lacks, refuses := o.set.Asked()
	if !o.set.Idle() || o.set.Traffic() != o.common.told || lacks || refuses {
		return false
	}
	for k := range limits.Concurrency {
		if o.set.Limit(k) > 0 && !parts.Crumb(o.set.UsedHere(k), o.set.Limit(k)) {
			return false
		}
	}
	o.common.inUse = false
	o.dropLocked()
	return true
}
