package governor

import (
	"maps"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// LimitsDemand is the demand of this process on a tenant's own limits.
type LimitsDemand struct {
	// Spoken says that somebody speaks for the limits: they were listed by Governor.SharedLimits, and
	// do not rest.
	Spoken bool
	// Granted says that some calls go within grants. Others ask before they go; see Asks.
	Granted bool
	// Busy says that calls run or wait or, since the last Claim, lacked a grant or were refused because it is remembered that there is no
	// room. Traffic counts all calls so far.
	Busy    bool
	Traffic limits.Traffic
	Parts   []limits.Demand // on each limit and budget
}

// Grant is how much this process may use of a limit, or of a budget in one period or one member's share of it.
type Grant struct {
	Name string `json:"name"`
	// Amount is the grant itself, Others is the usage of other processes, and Held
	// of that is held by calls in flight. They are in the limit's own units.
	Amount int64 `json:"amount,omitempty"`
	Others int64 `json:"others,omitempty"`
	Held   int64 `json:"held,omitempty"`
}

// SharedLimits returns the limits that have come into use, or of which a call lacks a grant, since it
// was last called. The same limits are always the same pointer. It is for one goroutine.
func (g *Governor) SharedLimits() (list []*SharedLimits) {
	if g.changes == nil {
		return nil
	}
	g.lock()
	defer g.unlock()
	for _, o := range taken(g.changes.listed) {
		list = append(list, &o.sharing.handle)
	}
	return list
}

// Owner names the limits to other processes.
func (s *SharedLimits) Owner() string {
	if s.own.pool == "" {
		return s.own.owner
	}
	return s.own.owner + " in " + s.own.pool
}

// Asks reports whether there are calls that ask before they go by these limits.
func (s *SharedLimits) Asks() bool {
	s.g.lock()
	defer s.g.unlock()
	return s.own.sharing.asking
}

// Demand reads the present demand.
func (s *SharedLimits) Demand(now time.Time) LimitsDemand {
	s.g.lock()
	defer s.g.unlock()
	return s.own.demand(now)
}

// Claim is Demand, for a caller that passes all of it on: Busy begins anew.
func (s *SharedLimits) Claim(now time.Time) LimitsDemand {
	s.g.lock()
	defer s.g.unlock()
	defer s.own.set.Noted()
	return s.own.demand(now)
}

// GiveUp is Claim, and gives up all unused grants.
func (s *SharedLimits) GiveUp(now time.Time) LimitsDemand {
	s.g.lock()
	defer s.g.unlock()
	defer s.own.set.Noted()
	s.own.told(Told{Verb: limitsGiveUp, Now: s.g.line.since(now)})
	d := s.own.demand(now)
	s.own.giveBack(now)
	return d
}

// giveBack gives up all unused grants, as of a time to which the limits were advanced.
func (o *ownLimits) giveBack(now time.Time) {
	for k := range limits.Axis(limits.Axes) {
		o.set.Allow(k, min(o.set.Granted(k), o.set.UsedHere(k)))
	}
	for _, a := range o.caps {
		a.granted = min(a.granted, a.used(now))
	}
	o.applyGrants()
}

// Traffic counts all calls so far.
func (s *SharedLimits) Traffic() limits.Traffic {
	s.g.lock()
	defer s.g.unlock()
	return s.own.set.Traffic()
}

// OfTenant reports whether the limits are a tenant's, and not an upstream's.
func (s *SharedLimits) OfTenant() bool { return s.own.of == nil }

func (o *ownLimits) demand(now time.Time) LimitsDemand {
	o.advance(now)
	lacks, refuses := o.set.Asked()
	waiting, _ := o.set.InLine()
	lacks = lacks || waiting > 0
	d := LimitsDemand{
		Spoken: o.sharing.inUse, Granted: o.sharing.granted,
		Busy: o.set.Running() > 0 || lacks || refuses, Traffic: o.set.Traffic(),
	}
	for k := range limits.Axis(limits.Axes) {
		if o.set.Limit(k) > 0 {
			d.Parts = append(d.Parts, o.set.Demand(k))
		}
	}
	calls := o.set.Demand(limits.Concurrency).Waiting
	for _, a := range o.caps {
		p := a.demand(now)
		p.Ends = a.counts(now)
		if d.Granted {
			p.Waiting = calls * p.Last
		}
		if d.Granted && lacks && a.lacksGrant() {
			p.Need = p.Used + max(a.scale, p.Last)
		}
		d.Parts = append(d.Parts, p)
	}
	return d
}

// Allow puts grants in force until the given time. Limits that are not among them keep theirs.
func (s *SharedLimits) Allow(now, until time.Time, list []Grant) {
	at := s.g.lock()
	defer s.g.unlock()
	s.own.told(Told{Verb: limitsAllow, Now: s.g.line.since(now), Until: s.g.line.since(until), Parts: list})
	s.allow(at, now, until, list)
}

func (s *SharedLimits) allow(at, now, until time.Time, list []Grant) {
	s.own.allow(now, until, list)
	if p := s.own.of; p != nil {
		s.g.pump(p, at)
	}
}

// Keep prolongs the grants until a time, as long as the sign of life of that number is good (Governor.Sign): whenever they are looked at, until
// that is over. It holds until Allow.
func (s *SharedLimits) Keep(until time.Time, sign int) {
	s.g.lock()
	defer s.g.unlock()
	s.own.told(Told{Verb: limitsKeep, Until: s.g.line.since(until), Sign: sign})
	s.own.keep(until, sign)
}

func (o *ownLimits) keep(until time.Time, sign int) {
	o.sharing.kept = until
	o.sharing.sign = sign
}

// Sign says until when a sign of life is good. Signs are numbered from 1.
func (g *Governor) Sign(number int, until time.Time) {
	g.lock()
	defer g.unlock()
	g.queueTold(Told{Verb: signGood, Sign: number, Until: g.line.since(until)})
	g.sign(g.line.now, number, until)
}

func (g *Governor) sign(now time.Time, number int, until time.Time) {
	if g.changes == nil {
		return
	}
	signs := g.changes.signs
	if _, known := signs[number]; !known { // what is over prolongs nothing
		maps.DeleteFunc(signs, func(_ int, until time.Time) bool { return until.Before(now) })
	}
	signs[number] = until
}

func (o *ownLimits) allow(now, until time.Time, list []Grant) {
	o.advance(now)
	o.sharing.forget() // the answer counts them
	o.sharing.shut = false
	o.sharing.sign = 0
	o.set.Renew(until)
	for k := range limits.Axis(limits.Axes) {
		if o.set.Limit(k) == 0 {
			continue
		}
		if grant := grantOf(o.set.ShareName(k), list); grant != nil {
			o.set.Allow(k, grant.Amount)
			o.set.Elsewhere(k, grant.Others)
		}
	}
	for _, a := range o.caps {
		a.allow(now, list)
	}
	o.applyGrants()
	o.hear()
	o.wake()
}

// Alone says that nobody answers. Once the grants have expired, and until Allow, this process counts
// by itself against the whole limits. If they are unreadable, other processes go on with theirs, and this one does so only where
// Pool.OnLoss of all pools is open.
func (s *SharedLimits) Alone(now time.Time, unreadable bool) {
	s.g.lock()
	defer s.g.unlock()
	s.own.told(Told{Verb: limitsAlone, Now: s.g.line.since(now), Worse: unreadable})
	s.own.leaveAlone(now, unreadable)
}

func (o *ownLimits) leaveAlone(now time.Time, unreadable bool) {
	o.advance(now)
	o.hear()
	if unreadable && o.sharing.closed {
		o.sharing.shut = true
		o.set.Renew(time.Time{})
		o.drop()
		return
	}
	if o.of != nil || !o.set.Alone() { // an upstream's limits are closed without grants, as the pool's are
		return
	}
	o.applyGrants()
	o.wake()
}

// Rest gives up all grants, unless calls run or wait, or came or were refused since the Traffic was
// counted. If it does, nobody speaks for the limits from then on, until SharedLimits returns them again.
func (s *SharedLimits) Rest(now time.Time, since limits.Traffic) bool {
	s.g.lock()
	defer s.g.unlock()
	o := s.own
	o.advance(now)
	lacks, refuses := o.set.Asked()
	if !o.set.Idle() || o.set.KeepsPlaces() || o.set.Traffic() != since || lacks || refuses {
		return false
	}
	o.told(Told{Verb: limitsRest, Now: s.g.line.since(now)})
	o.rest()
	return true
}

func (o *ownLimits) rest() {
	o.sharing.inUse = false
	o.drop()
}

// told queues what was told of the limits.
func (o *ownLimits) told(t Told) {
	t.Limits = o.sharing.number
	o.sharing.all.g.queueTold(t)
}

// counts is until when others are to count what is used here now of a tenant's budget.
func (a *account) counts(now time.Time) time.Time {
	if _, _, member := terms.CutMember(a.of.owner); member && a.Per == budget.Life {
		return now.Add(terms.MemberLife).Truncate(24 * time.Hour).Add(24 * time.Hour) // the same all day
	}
	return a.ends
}
