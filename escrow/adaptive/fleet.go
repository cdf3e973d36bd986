package adaptive

import (
	"crypto/rand"
	"maps"
	"slices"
	"time"
)

// Fleet is one gateway's side of a limit that several gateways find out together. The one that has been
// there longest leads: it judges, by the samples of all. The others follow its limit. A Fleet that hears
// of nobody is a Limiter. It is not safe for concurrent use.
type Fleet struct {
	limiter *Limiter
	member  member
	limit   int64     // of the one that leads, while another does
	leads   bool      // other gateways are to follow this one
	follows bool      // another one leads
	heard   time.Time // when notes last came
	elder   time.Time // when one last came of a gateway that has been there longer
	own     []sample  // the last ones, for the one that leads
	ended   int64     // calls, since the start
	lacked  time.Time // when a call here last found no slot
	read    reading   // of the servers, the last one here
	known   map[string]told
}

// patience is for how long a gateway that is heard of no more is still waited for.
const patience = 2500 * time.Millisecond

// told is how much of another gateway's samples, ends of calls and readings of servers has been taken in.
type told struct {
	samples, ended, reads int64
	heard                 time.Time
}

// NewFleet returns a limit that begins at its least.
func NewFleet(cfg Config) *Fleet { return &Fleet{limiter: New(cfg), known: map[string]told{}} }

// Name names the gateway, in place of a name that it draws. No other one that finds the same limit, now or later, may have it.
func (f *Fleet) Name(id string) { f.member.ID = id }

// ID is the gateway's name.
func (f *Fleet) ID() string {
	if f.member.ID == "" {
		f.member.ID = rand.Text()
	}
	return f.member.ID
}

// Begin begins at the number of calls that run already, within the bounds.
func (f *Fleet) Begin(running int64) { f.limiter.Begin(running) }

// Resume begins at a limit that was found before, within the bounds.
func (f *Fleet) Resume(now time.Time, limit int64) { f.limiter.follow(now, limit) }

// Configure changes law and bounds.
func (f *Fleet) Configure(cfg Config) { f.limiter.Configure(cfg) }

// Limit is how many calls may be in flight, at all gateways together.
func (f *Fleet) Limit() int64 {
	return f.limiter.cfg.within(f.goesBy())
}

// goesBy is the limit that this gateway has heard of, or found. Its own bounds may leave less of it, or more.
func (f *Fleet) goesBy() int64 {
	if f.follows {
		return f.limit
	}
	return f.limiter.Limit()
}

// Ended tells how long a call was in flight, whatever became of it.
func (f *Fleet) Ended(ran time.Duration) {
	f.limiter.Ended(ran)
	f.ended++
}

// Lacked tells that a call here found no slot. Of calls that arrive together only the last finds the limit reached, but
// the limit holds back what comes after any of them: all that run then count as Full.
func (f *Fleet) Lacked(now time.Time) { f.lacked = now }

// Observe records the sample of a call here.
func (f *Fleet) Observe(now time.Time, s Sample) {
	s.Full = s.Full || !f.lacked.Before(s.Began)
	f.keep(sample{Sample: s, at: now})
	f.limiter.Observe(now, s)
}

// Loaded takes in a load of the servers, heard of while so many calls are in flight at all gateways. The one that leads goes by
// it, because all read the same servers, and if it reads nothing itself by what others tell.
func (f *Fleet) Loaded(now time.Time, load Load, inFlight int64) {
	f.read = reading{Seq: f.read.Seq + 1, InFlight: inFlight, Load: load, at: now}
	f.limiter.Loaded(now, load, inFlight)
}

// Room is how many calls in flight the servers have room for; 0 if they do not say that it is bounded.
func (f *Fleet) Room(now time.Time) int64 { return f.limiter.room(now) }

// Overloaded tells that the upstream refused a call for want of capacity, or did not answer it in time.
func (f *Fleet) Overloaded(now, began time.Time) {
	f.keep(sample{Sample: Sample{Began: began}, at: now})
	f.limiter.Overloaded(now, began)
}

// Hear takes in the notes of all other gateways that are heard of. running is how many calls are in flight at
// all gateways: the first one that finds a limit for them begins at that, for the others may go by a fixed one.
func (f *Fleet) Hear(now time.Time, notes []Note, running int64) {
	others := read(now, notes)
	if f.heard.IsZero() && len(others) == 0 && running > f.limiter.Limit() {
		f.limiter.Begin(running)
	}
	if f.away(now) {
		f.leads = false // others have gone on without this one
	}
	f.heard = now
	if !f.leads {
		f.followAny(now, others)
	}
	f.turnTo(now, others)
	if !f.leads {
		return
	}
	f.takeIn(now, others)
	if slices.ContainsFunc(others, func(o *note) bool { return o.Limit > 0 && o.Limit != f.goesBy() }) {
		f.limiter.turn(now, true) // calls that begin before all have heard of the limit say nothing of it
	}
}

// Alone says that nothing is heard of others: until that changes, the limit is that of the calls here.
func (f *Fleet) Alone() {
	f.leads = false
	f.follows = false
}

// away reports whether this gateway knows no limit of the fleet.
func (f *Fleet) away(now time.Time) bool { return f.heard.IsZero() || now.Sub(f.heard) > patience }

// followAny takes over the limit of the one that leads.
func (f *Fleet) followAny(now time.Time, others []*note) {
	for _, o := range others { // the eldest first
		if o.Leads && o.Limit > 0 {
			f.follows = true
			f.limit = o.Limit
			f.limiter.follow(now, o.Limit)
			return
		}
	}
}

// turnTo settles who leads. One that does not know the limit does not: it may hear of nobody for long.
func (f *Fleet) turnTo(now time.Time, others []*note) {
	eldest := slices.IndexFunc(others, func(o *note) bool { return o.Limit > 0 })
	switch {
	case eldest >= 0 && f.member.after(others[eldest].member):
		f.elder = now
		f.leads = false
		f.followAny(now, others)
	case f.leads || now.Sub(f.elder) <= patience && !slices.ContainsFunc(others, func(o *note) bool { return o.Leads }):
	default:
		f.leads = true
		f.follows = false
	}
}

// takeIn has the limiter observe the calls of others, in their order. What it has of a gateway it remembers for longer
// than samples are told, for a gateway of a release that knows no notes may take one out of the store for a moment.
func (f *Fleet) takeIn(now time.Time, others []*note) {
	f.takeRead(now, others)
	var list []sample
	for _, o := range others {
		before := f.known[o.ID]
		for range min(o.Ended-before.ended, shortRun) {
			f.limiter.Ended(time.Duration(o.Ran) * time.Millisecond)
		}
		f.known[o.ID] = told{max(before.samples, o.last()), o.Ended, o.lastRead(before.reads), now}
		for _, s := range o.samples {
			if s.seq > before.samples {
				list = append(list, s)
			}
		}
	}
	maps.DeleteFunc(f.known, func(_ string, t told) bool { return now.Sub(t.heard) > oldest+patience })
	slices.SortStableFunc(list, func(a, b sample) int { return a.at.Compare(b.at) })
	for _, s := range list {
		if s.Latency == 0 {
			f.limiter.Overloaded(s.at, s.Began)
			continue
		}
		f.limiter.Observe(s.at, s.Sample)
	}
}

// follow takes over a limit that another gateway has found.
func (l *Limiter) follow(now time.Time, limit int64) {
	if limit == l.Limit() && !l.draining {
		return
	}
	l.draining = false
	l.set(float64(limit))
	l.settle()
	l.turn(now, true)
}
