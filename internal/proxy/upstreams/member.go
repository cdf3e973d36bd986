package upstreams

import (
	"cmp"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Outcome is the outcome of a try.
type Outcome int

const (
	// Served is an answer, perhaps with the caller's own error.
	Served Outcome = iota
	// Busy is an answer that asks to come back later.
	Busy
	// Failed is an answer that the upstream failed, or refuses its key.
	Failed
	// Silent is no answer.
	Silent
	// Stale is the loss of a connection kept from an earlier call. It is no sign of the upstream's health.
	Stale
	// Abandoned is a try whose caller left. It is no sign of the upstream's health.
	Abandoned
	// Lacking is an answer that the upstream does not have what the call names, or no room for calls of its kind. It says nothing of
	// other calls, and another upstream may serve this one.
	Lacking
	// Amended is an answer that refuses what was added to the call, which is sent once more without it. It is no sign of the
	// upstream's health.
	Amended

	numOutcomes = int(iota)
)

var outcomeNames = [numOutcomes]string{"served", "busy", "failed", "silent", "stale", "abandoned", "lacking", "amended"}

func (o Outcome) String() string { return outcomeNames[o] }

// Result is the outcome of a try, with the headers of its answer.
type Result struct {
	Outcome Outcome
	Began   time.Time // time of the choice
	Probe   bool      // of the Choice
	Told    Told
	Retry   time.Duration // the wait that was asked for; 0 is none
	Model   string        // the model that declared limits are for
	Tenant  string        // whose call it is
	Scope   Scope         // the calls that a pause is of
	Cause   string        // of a failure
}

// Events are the changes by a Result. Probed is a failed probe, which Any tells of, and Paused the first pause of a Scope after some time without
// one.
type Events struct {
	Opened, Probed, Closed, Cooled, Paused, Limits bool

	Until time.Time // the end of the pause of the Result's Scope, if it is busy
}

// Any reports whether anything has changed.
func (e Events) Any() bool {
	e.Until = time.Time{}
	return e != Events{}
}

const (
	// limitsLast is the time for which a declared limit counts, and limitsFresh the time for
	// which it needs no renewal.
	limitsLast  = 5 * time.Minute
	limitsFresh = time.Minute
	// mostModels bounds the models whose limits are remembered.
	mostModels = 16
	// agreeing is the number of answers in a row that must declare the same limits before these count,
	// because one wrong header must not take a pool's capacity for minutes, and an upstream whose limits
	// are really lower than configured declares them in every answer.
	agreeing = 3
)

// Member is one upstream of a pool. It is safe for concurrent use.
type Member struct {
	Name    string
	Account string
	Weight  int64
	Order   int64 // those of the lowest go first
	seed    uint64

	own   Told // its own limits
	heeds Heed

	inPool [limits.Kinds]float64 // its part of what its pool may use of the account

	*state
}

// state is the health of an upstream. It is kept from one Set to the next.
type state struct {
	identity string       // identifies the upstream over configurations
	uses     *uses        // of the pool
	running  atomic.Int64 // calls in flight

	mu      sync.Mutex
	breaker breaker             // guarded by mu, as all below
	alone   map[string]*breaker // those that are open, of tenants that it fails, with their teams
	pauses  pauses
	limits  map[string]declared
	looked  time.Time // when it was looked at what is left, of any of them
	tries   [numOutcomes]int64
	silence silence
	most    Told      // that the pool may use of the account, beside other pools; 0 is no limit
	shared  time.Time // when that was
}

// declared are the limits that an upstream has declared for a model; 0 is none.
type declared struct {
	Told
	at   time.Time
	said int // answers in a row that declared them, up to agreeing
	// others are those who use them as well, by axis; nil before the first look.
	others *[limits.Kinds]foreign
	looked time.Time
}

// leave is how much may be used of all models while others leave that much of a limit, if the part of it that is used of this limit stays the
// same; 0 is that it says nothing.
func (f *foreign) leave(now time.Time, limit int64) int64 {
	count := f.count(now)
	if count == 0 || limit == 0 {
		return 0
	}
	return int64(min(float64(max(limit-count, limit/leastKept, 1))/f.part, math.MaxInt64/2))
}

// readiness is whether a call may go to an upstream, else the time at which it may.
type readiness struct {
	ok     bool
	cooled bool // it is busy; else it does not work
	at     time.Time
}

// openLocked are the breakers that are open to a tenant's calls: that of all, and its own.
func (s *state) openLocked(tenant string) (list []*breaker) {
	if s.breaker.open {
		list = append(list, &s.breaker)
	}
	if b := s.alone[withTeams(tenant)]; b != nil {
		list = append(list, b)
	}
	return list
}

// readyLocked is the readiness for a tenant's calls of a scope, or, given none, for all that are in use.
func (s *state) readyLocked(now time.Time, of Scope, tenant string) readiness {
	if until := s.pauses.until(now, of, s.uses); until.After(now) {
		return readiness{cooled: true, at: until}
	}
	r := readiness{ok: true}
	for _, b := range s.openLocked(tenant) {
		if b.until.After(now) && b.until.After(r.at) {
			r = readiness{at: b.until}
		}
	}
	return r
}

// Leave ends a call for which the upstream was chosen.
func (s *state) Leave() { s.running.Add(-1) }

// Report records the outcome of a try.
func (s *state) Report(now time.Time, r Result) (e Events) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[r.Outcome]++
	switch r.Outcome {
	case Stale, Abandoned, Lacking, Amended:
		for _, b := range s.openLocked(r.Tenant) {
			if r.Probe {
				b.abandoned(now)
			}
		}
		return e
	case Busy:
		p := s.pauses.of(now, r.Scope)
		before := p.end
		p.extend(now, r.Retry)
		e.Until = p.end
		e.Cooled = p.end.After(before)
		e.Paused = now.Sub(before) >= pausesApart
	case Served:
		s.pauses.served(r.Scope)
	}
	works := r.Outcome == Served || r.Outcome == Busy
	was := s.breaker.open
	if s.breaker.record(now, works, r) {
		e.Opened = !was
		e.Probed = was && !works
		e.Closed = works
	}
	s.recordAloneLocked(now, works, r)
	e.Limits = s.declareLocked(now, r)
	return e
}

// recordAloneLocked opens and closes the breaker of the tenant of a call.
func (s *state) recordAloneLocked(now time.Time, works bool, r Result) {
	tenant := withTeams(r.Tenant)
	b := s.alone[tenant]
	switch {
	case b != nil:
		if b.record(now, works, r); !b.open {
			delete(s.alone, tenant)
		}
	case !works && s.breaker.voices[tenant].fails():
		maps.DeleteFunc(s.alone, func(_ string, b *breaker) bool { return now.Sub(b.until) > lastPause })
		if s.alone == nil {
			s.alone = map[string]*breaker{}
		}
		if len(s.alone) < mostVoices {
			b = &breaker{}
			b.opens(now, r)
			s.alone[tenant] = b
		}
	}
}

// declareLocked remembers the limits that an answer declares. It reports whether the limits that
// count may have changed.
func (s *state) declareLocked(now time.Time, r Result) bool {
	if r.Told == (Told{}) {
		return false
	}
	old, known := s.limits[r.Model]
	said := 1
	if old.Told == r.Told {
		if old.said == agreeing && now.Sub(old.at) < limitsFresh {
			return false
		}
		said = min(old.said+1, agreeing)
	}
	if s.limits == nil {
		s.limits = map[string]declared{}
	}
	if !known && len(s.limits) >= mostModels {
		s.forgetOldestLocked()
	}
	s.limits[r.Model] = declared{Told: r.Told, at: now, said: said, others: old.others, looked: old.looked}
	return said == agreeing || old.said == agreeing
}

func (s *state) forgetOldestLocked() {
	oldest := ""
	at := time.Time{}
	for model, l := range s.limits {
		if at.IsZero() || l.at.Before(at) {
			oldest = model
			at = l.at
		}
	}
	delete(s.limits, oldest)
}

// Due reports whether a look at what is left for a model is due.
func (s *state) Due(now time.Time, model string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.limits[model]
	return known && (l.others == nil || now.Sub(l.looked) >= lookEvery)
}

// Look takes in what an answer says is left for a model. Own is how much pools have used in the last minute of what the upstream counts with that model,
// of which below 0 is unknown, and all how much the same pools have used of all their models. Late is how late it may be known what other gateways used.
// It reports whether the limits that count may have changed.
func (m *Member) Look(now time.Time, model string, left *Remains, own, all Told, late time.Duration, refused bool) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, known := m.limits[model]
	if !known {
		return false
	}
	if l.others == nil {
		l.others = new([limits.Kinds]foreign)
	}
	l.looked = now
	m.looked = now
	m.limits[model] = l
	for of := range l.others {
		if is := left[of]; is.Limit > 0 && own[of] >= 0 {
			l.others[of].part = float64(max(1, own[of])) / float64(max(1, all[of]))
			tells := l.others[of].look(now, is, own[of], late, refused)
			news = news || tells
		}
	}
	return news && l.said == agreeing
}

// way is how the upstream may count a limit of a model.
func (s *state) way(now time.Time, model string, of limits.Axis) way {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits[model]
	switch {
	case l.others == nil:
		return rolling
	case l.others[of].paid > 0:
		return bucket
	}
	return l.others[of].way(now)
}

// share puts in force how much the pool may use of the account.
func (s *state) share(now time.Time, most Told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
	s.shared = now
}

// largestLocked are the largest limits declared recently, as of a time, and when they were: as they were declared, or what may be used of them all so
// that each is left to others. Of that only the models tell that were called last: of others nobody knows how much is left.
func (s *state) largestLocked(now time.Time, left bool) (most declared) {
	var room Told
	for _, l := range s.limits {
		if now.Sub(l.at) >= limitsLast || l.said < agreeing {
			continue
		}
		tells := left && l.others != nil && s.looked.Sub(l.looked) < foreignLastsLeast
		for k, limit := range l.Told {
			most.Told[k] = max(most.Told[k], limit)
			if tells {
				leave := l.others[k].leave(now, limit)
				room[k] = min(cmp.Or(room[k], leave), cmp.Or(leave, room[k]))
			}
		}
		if l.at.After(most.at) {
			most.at = l.at
		}
	}
	for k, limit := range most.Told {
		most.Told[k] = min(limit, cmp.Or(room[k], limit))
	}
	return most
}

// foreignLocked is the use by others that counts, of the model of whose limit it is the largest part, and these limits.
func (s *state) foreignLocked(now time.Time) (most, limits Told) {
	for _, l := range s.limits {
		if l.others == nil || l.said < agreeing {
			continue
		}
		for _, of := range Limited {
			if n := l.others[of].uses(now); n > 0 && float64(n)*float64(limits[of]) >= float64(most[of])*float64(l.Told[of]) {
				most[of] = n
				limits[of] = l.Told[of]
			}
		}
	}
	return most, limits
}

// othersLastLocked is since when, and for how long, that use by others counts that ends last; 0 if none does.
func (s *state) othersLastLocked(now time.Time) (from time.Time, lasts time.Duration) {
	for _, l := range s.limits {
		for i := 0; l.others != nil && i < limits.Kinds; i++ {
			if f := &l.others[i]; f.count(now) > 0 && f.toldAt.Add(f.toldFor).After(from.Add(lasts)) {
				from = f.toldAt
				lasts = f.toldFor
			}
		}
	}
	return from, lasts
}
