package governor

import (
	"math/bits"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
)

// SharedPool is a pool whose limits are shared with other processes (Config.Shared), for
// who speaks for it with them: it reports what was used here and what is asked for, and
// takes what may be handed out. It is for one goroutine.
type SharedPool struct {
	g    *Governor
	name string

	// As of the last report. What follows from it is for these alone.
	pool *pool
	era  int
	tree *claimTree

	demands []escrow.Demand // scratch
}

// SharedPools are all pools that share limits; those too which no configuration has any
// more, but in which calls run. The same name is always the same pool to others.
func (g *Governor) SharedPools() []*SharedPool {
	if !g.shared {
		return nil
	}
	var out []*SharedPool
	tb := g.table.Load()
	for _, p := range tb.inOrder.pools {
		out = append(out, &SharedPool{g: g, name: p.name})
	}
	for _, p := range tb.gone {
		out = append(out, &SharedPool{g: g, name: p.name})
	}
	return out
}

// Name is the pool's.
func (s *SharedPool) Name() string { return s.name }

// find is the pool of the name, or nil.
func (s *SharedPool) find() *pool { return s.g.poolOf(s.name) }

// Rated reports whether a pool has a limit on tokens or requests a minute.
func (g *Governor) Rated(pool string) bool {
	p := g.poolOf(pool)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set.TPM > 0 || p.set.RPM > 0
}

// Expect is how many nodes there are, as the configuration says; 0 if it does not.
func (s *SharedPool) Expect() int {
	p := s.find()
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules.ExpectNodes
}

// Pressure is how much the pool lacks now; false if it has nothing to share. What no
// configuration has any more is spoken for only as long as something of it counts: its
// limits would hold for others, too.
func (s *SharedPool) Pressure(now time.Time) (federation.Pressure, bool) {
	p := s.find()
	if p == nil {
		return federation.Pressure{}, false
	}
	gone := s.g.table.Load().pools[s.name] == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set.TPM == 0 && p.set.RPM == 0 && (p.lent == nil || p.set.Slots == 0) || gone && p.quietLocked(now) {
		return federation.Pressure{}, false
	}
	return federation.Pressed(p.escrow, now), true
}

// quietLocked reports whether nothing runs or waits, and nothing was used in the last
// minute.
func (p *pool) quietLocked(now time.Time) bool {
	st := p.escrow.State(now)
	return st.Running == 0 && st.Waiting == 0 && st.Axes[escrow.Tokens].Used == 0 && st.Axes[escrow.Requests].Used == 0
}

// Report tells what the pool has used, holds and lacks, all as of now. The pool is locked
// while it is copied, and not while the report is made of it.
func (s *SharedPool) Report(now time.Time) *federation.Report {
	r := &federation.Report{Bookings: make([]escrow.Booking, 0, 2048)}
	p := s.find()
	s.pool = p
	if p == nil {
		return r
	}
	p.mu.Lock()
	burst := p.set.Burst
	s.copyLocked(p, now, r)
	p.mu.Unlock()
	for k, limit := range r.Limits {
		r.Burst[k] = int64(float64(limit) * burst.Seconds() / escrow.Window.Seconds())
	}
	r.Tree = s.tree.with(s.demands)
	return r
}

// copyLocked copies what a report is made of.
func (s *SharedPool) copyLocked(p *pool, now time.Time, r *federation.Report) {
	s.era, s.tree = p.era, p.tree
	r.Limits = escrow.Cost{escrow.Tokens: p.set.TPM, escrow.Requests: p.set.RPM}
	r.Reserve = escrow.Cost{p.rules.withheld(p.set.TPM), p.rules.withheld(p.set.RPM)}
	r.Survey(p.escrow, now)
	s.demands = s.demands[:0]
	for _, id := range s.tree.leaves {
		s.demands = append(s.demands, p.escrow.Demand(id))
	}
}

// applyStride is how many shares are put in force under one lock.
const applyStride = 256

// Apply puts in force what follows from the answer to the last report.
func (s *SharedPool) Apply(now time.Time, commands []federation.Command) {
	p := s.pool
	if p == nil || p != s.find() {
		return
	}
	p.mu.Lock()
	p.learning = time.Time{}
	for i, c := range commands {
		if i%applyStride == applyStride-1 {
			p.mu.Unlock()
			p.mu.Lock()
		}
		switch c := c.(type) {
		case federation.Allow:
			if p.era == s.era { // else what was spent is counted from another beginning
				p.allowed, p.aloneUntil = c.Allowance.Since, time.Time{}
				p.escrow.Allow(now, c.Axis, p.cutLocked(now, c.Allowance))
			}
		case federation.Share:
			p.shareLocked(s.tree.paths[c.ID], c.PPM)
		case federation.Stop:
			p.allowed = time.Time{}
			if p.lent != nil {
				p.lent.fenced = true
				p.narrowLocked()
			}
			for _, k := range []escrow.Axis{escrow.Tokens, escrow.Requests} {
				p.escrow.Allow(now, k, escrow.Allowance{Since: now, Until: now, Spent: p.escrow.Spent(k)})
			}
		}
	}
	s.g.pumpAndUnlock(p, now)
}

// cutLocked is what of an allowance the cuts in force leave. Who allows it learns by what
// is held of it, and others may have the rest.
func (p *pool) cutLocked(now time.Time, a escrow.Allowance) escrow.Allowance {
	a.Rate = p.leftLocked(now, a.Rate)
	return a
}

// leftLocked is what of a rate the cuts in force leave.
func (p *pool) leftLocked(now time.Time, rate int64) int64 {
	return rate * p.escrow.State(now).Part / Whole // at most 10¹¹ · 10⁶
}

// Learns says that whoever shares the limits out grants nothing until then, because it
// does not know what was used before.
func (s *SharedPool) Learns(until time.Time) {
	if p := s.find(); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.learning = until
	}
}

// cutOffLocked reports whether the pool hands out nothing, or what it allows itself,
// because nobody has said of late how much it may. That it may have nothing for now is an
// answer, too.
func (p *pool) cutOffLocked(now time.Time) bool {
	return p.set.Shared && (p.set.TPM > 0 || p.set.RPM > 0) && now.Sub(p.allowed) >= answerFor
}

// dryLocked reports whether the pool is cut off and allows itself nothing.
func (p *pool) dryLocked(now time.Time) bool {
	if p.slotsLostLocked() && p.ownSlotsLocked() == 0 {
		return true
	}
	if !p.cutOffLocked(now) {
		return false
	}
	for k, limit := range [...]int64{escrow.Tokens: p.set.TPM, escrow.Requests: p.set.RPM} {
		if a, _ := p.escrow.Allowed(now, escrow.Axis(k)); limit > 0 && (a.Rate == 0 || !now.Before(a.Until)) {
			return true
		}
	}
	return false
}

// offerDryLocked offers a call to such a pool. When its turn comes nobody knows, so no place
// is kept, and who comes back waits no longer than it would have.
func (p *pool) offerDryLocked(now time.Time, call escrow.Call) (escrow.Handle, escrow.Answer) {
	call.Claim = escrow.Claim{Retry: escrow.RetryFirst}
	ans := p.escrow.Foretell(now, call)
	if ans.Verdict == escrow.Admitted || ans.Verdict == escrow.Queued {
		return p.escrow.Offer(now, call)
	}
	return escrow.Handle{}, ans
}

// answerFor is how long an answer counts: as long as a grant.
var answerFor = federation.DefaultRules().TTL

// aloneFor is how long what a pool that is cut off allows itself is in force, and
// aloneAgain how long before that it may be renewed: a beat that nobody answers lies
// between.
const aloneFor, aloneAgain = 2200 * time.Millisecond, 2 * time.Second

// Alone tells a pool that is cut off how many nodes there were when that was last known, 0
// if it never was. It allows itself what its configuration has for then.
func (s *SharedPool) Alone(now time.Time, nodes int) {
	p := s.find()
	if p == nil {
		return
	}
	p.mu.Lock()
	if p.nodes != nodes {
		p.nodes = nodes
		p.narrowLocked()
	}
	if !p.cutOffLocked(now) || now.Before(p.aloneUntil.Add(-aloneAgain)) {
		p.mu.Unlock()
		return
	}
	nodes = max(nodes, p.rules.ExpectNodes)
	was := p.aloneUntil
	p.aloneUntil = time.Time{}
	for k, limit := range [...]int64{escrow.Tokens: p.set.TPM, escrow.Requests: p.set.RPM} {
		rate := p.leftLocked(now, p.aloneRate(limit, nodes))
		if rate == 0 {
			continue
		}
		a, left := p.escrow.Allowed(now, escrow.Axis(k))
		if spent := p.escrow.Spent(escrow.Axis(k)); was.IsZero() { // of what was granted nothing is left, but debt
			left = min(0, a.Left(a.Until.Add(-1), spent))
		} else if !now.Before(was) {
			left = a.Left(was.Add(-1), spent)
		}
		p.aloneUntil = now.Add(aloneFor)
		// A second's worth at once, so that calls are whole: with the rate that is the part
		// again, in any minute.
		p.escrow.Allow(now, escrow.Axis(k), escrow.Allowance{
			Since: now, Until: p.aloneUntil, Level: min(left, rate/60), Rate: rate, Spent: p.escrow.Spent(escrow.Axis(k)),
		})
	}
	s.g.pumpAndUnlock(p, now)
}

// aloneRate is the rate of a limit that one of so many nodes has to itself when it is cut off.
func (p *pool) aloneRate(limit int64, nodes int) int64 {
	rate := p.rules.ownPart(limit, nodes)
	if p.rules.OnLoss == LossLocal {
		rate = rate * 60 / 62 // two seconds' worth may be saved up
	}
	return rate
}

// ownPart is how much of a limit one of so many nodes has to itself when it is cut off.
// Who does not know how many there are has nothing.
func (c *Pool) ownPart(limit int64, nodes int) int64 {
	switch {
	case c.OnLoss == LossOpen:
		return limit
	case c.OnLoss == LossLocal && nodes > 0:
		return c.withheld(limit) / int64(nodes)
	}
	return 0
}

// withheld is what of a limit is never granted.
func (c *Pool) withheld(limit int64) int64 {
	if c.OnLoss != LossLocal {
		return 0
	}
	hi, lo := bits.Mul64(uint64(limit), uint64(c.LocalPPM))
	q, _ := bits.Div64(hi, lo, 1_000_000)
	return int64(q)
}

// Together is the pool as all processes that share it have it together: without what is never
// granted.
func (c Pool) Together() Pool {
	for _, limit := range []*int64{&c.TPM, &c.RPM, &c.Concurrency} {
		if *limit > 0 {
			*limit = max(1, *limit-c.withheld(*limit))
		}
	}
	c.InteractiveReserve = max(0, min(c.InteractiveReserve, c.Concurrency-1))
	c.MinConcurrency = min(c.MinConcurrency, c.Concurrency)
	return c
}

// lossRetry is when to come back to a pool that was cut off: nobody knows, and most
// losses are short.
const lossRetry = time.Second

// lostLocked makes a refusal say that the pool is cut off.
func (p *pool) lostLocked(now time.Time, rej *Rejection) {
	rej.Reason, rej.Kept = ReasonStoreLost, false
	if rej.RetryAfter = max(rej.RetryAfter, lossRetry); !now.Before(p.aloneUntil) && p.cutOffLocked(now) {
		rej.RetryAfter = max(rej.RetryAfter, p.learning.Sub(now))
	}
}

// Degraded says which failure mode is in force in a pool that is cut off from who shares
// its limits out: closed, open or local, as it is configured, or learning while nothing is
// granted because it is not known what was used. Else it is empty.
func (g *Governor) Degraded(pool string) string {
	p := g.table.Load().pools[pool]
	if p == nil || !g.shared {
		return ""
	}
	now := g.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.degradedLocked(now)
}

// Free reports whether nobody holds the pool's lock just now. If it never is, the pool is stuck.
func (g *Governor) Free(pool string) bool {
	p := g.table.Load().pools[pool]
	if p == nil {
		return true
	}
	free := p.mu.TryLock()
	if free {
		p.mu.Unlock()
	}
	return free
}

// Modes are the values of Degraded.
var Modes = []string{modeClosed, modeOpen, modeLocal, modeLearning}

const (
	modeClosed   = "closed"
	modeOpen     = "open"
	modeLocal    = "local"
	modeLearning = "learning"
)

func (p *pool) degradedLocked(now time.Time) string {
	rule := [...]string{LossClosed: modeClosed, LossOpen: modeOpen, LossLocal: modeLocal}[p.rules.OnLoss]
	switch {
	case p.unheardLocked(now):
		return rule
	case !p.cutOffLocked(now) && !p.slotsLostLocked():
		return ""
	case now.Before(p.aloneUntil), !p.cutOffLocked(now) && p.lent.alone && p.ownSlotsLocked() > 0:
		return rule
	case p.cutOffLocked(now) && now.Before(p.learning):
		return modeLearning
	}
	return modeClosed
}

// grantLocked is how many tokens may be handed out until the allowance expires.
func (p *pool) grantLocked(now time.Time) int64 {
	a, left := p.escrow.Allowed(now, escrow.Tokens)
	if !now.Before(a.Until) {
		return 0
	}
	return max(0, left+int64(float64(a.Rate)*a.Until.Sub(now).Seconds()/escrow.Window.Seconds()))
}
