package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
)

// SharedPool is a pool whose limits are shared with other processes (Config.Shared), as seen by
// whoever talks to them: it reports what was used here and what is asked for, and takes what may be
// handed out. It is for one goroutine.
type SharedPool struct {
	g    *Governor
	name string

	// As of the last report; the answer to it applies to these alone.
	pool *pool
	era  int
	tree *claimTree

	demands []escrow.Demand // scratch
}

// SharedPools returns all pools that share limits, including those that no configuration has any
// more but in which calls still run. Other processes know a pool by its name.
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

// Name is the pool's name.
func (s *SharedPool) Name() string { return s.name }

// find returns the pool of that name, or nil.
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

// Expect is how many nodes there are according to the configuration; 0 if it does not say.
func (s *SharedPool) Expect() int {
	p := s.find()
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules.ExpectNodes
}

// Pressure is how much the pool lacks now. It is false if the pool has nothing to share, or if no
// configuration has it any more and nothing of it counts: its limits would go on holding for
// others.
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

// quietLocked reports whether nothing runs or waits, and nothing was used in the last minute.
func (p *pool) quietLocked(now time.Time) bool {
	st := p.escrow.State(now)
	return st.Running == 0 && st.Waiting == 0 && st.Axes[escrow.Tokens].Used == 0 && st.Axes[escrow.Requests].Used == 0
}

// Report tells what the pool has used, holds and lacks, all as of now. The pool is locked while
// that is copied, but not while the report is made from it.
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

// copyLocked copies what a report is made from.
func (s *SharedPool) copyLocked(p *pool, now time.Time, r *federation.Report) {
	s.era = p.era
	s.tree = p.tree
	r.Limits = escrow.Cost{escrow.Tokens: p.set.TPM, escrow.Requests: p.set.RPM}
	r.Reserve = escrow.Cost{p.rules.withheld(p.set.TPM), p.rules.withheld(p.set.RPM)}
	r.Survey(p.escrow, now)
	s.demands = s.demands[:0]
	for _, id := range s.tree.leaves {
		s.demands = append(s.demands, p.escrow.Demand(id))
	}
}

// applyStride is how many commands are put in force in one hold of the lock, because a pool may have
// many thousand shares, and calls want the lock too.
const applyStride = 256

// Apply puts in force what follows from the answer to the last report.
func (s *SharedPool) Apply(now time.Time, commands []federation.Command) {
	p := s.pool
	if p == nil || p != s.find() {
		return
	}
	for len(commands) > applyStride {
		s.applySome(now, commands[:applyStride])
		commands = commands[applyStride:]
	}
	p.mu.Lock()
	s.applyLocked(now, commands)
	s.g.pumpAndUnlock(p, now)
}

func (s *SharedPool) applySome(now time.Time, commands []federation.Command) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.applyLocked(now, commands)
}

func (s *SharedPool) applyLocked(now time.Time, commands []federation.Command) {
	s.pool.learning = time.Time{}
	for _, c := range commands {
		s.obeyLocked(now, c)
	}
}

// obeyLocked puts one command in force.
func (s *SharedPool) obeyLocked(now time.Time, c federation.Command) {
	p := s.pool
	switch c := c.(type) {
	case federation.Allow:
		if p.era == s.era { // otherwise Spent counts from another beginning
			p.allowed = c.Allowance.Since
			p.aloneUntil = time.Time{}
			p.escrow.Allow(now, c.Axis, p.cutLocked(now, c.Allowance))
		}
	case federation.Share:
		p.shareLocked(s.tree.paths[c.ID], c.PPM)
	case federation.Others:
		p.elsewhere = elsewhere{c.Used, now}
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

// cutLocked reduces an allowance by the cuts in force. Whoever grants it sees from the next report
// that less is used, and can give the rest to others.
func (p *pool) cutLocked(now time.Time, a escrow.Allowance) escrow.Allowance {
	a.Rate = p.leftLocked(now, a.Rate)
	return a
}

// leftLocked is what the cuts in force leave of a rate.
func (p *pool) leftLocked(now time.Time, rate int64) int64 {
	return rate * p.escrow.State(now).Part / Whole // at most 10¹¹ · 10⁶
}

// Learns says that nothing is granted until the given time, because it is unknown what was used
// before.
func (s *SharedPool) Learns(until time.Time) {
	if p := s.find(); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.learning = until
	}
}

// grantLocked is how many tokens may still be handed out before the allowance expires.
func (p *pool) grantLocked(now time.Time) int64 {
	a, left := p.escrow.Allowed(now, escrow.Tokens)
	if !now.Before(a.Until) {
		return 0
	}
	return max(0, left+int64(float64(a.Rate)*a.Until.Sub(now).Seconds()/escrow.Window.Seconds()))
}
