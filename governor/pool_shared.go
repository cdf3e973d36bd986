package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// MaxShared is the largest limit of a pool that may be shared.
const MaxShared = int64(1e11)

// SharedPool is a pool whose limits are shared with other processes (Config.Shared), as seen by
// whoever shares them out: it reads usage and demand, and puts grants
// in force. It is for one goroutine.
type SharedPool struct {
	g    *Governor
	name string

	// As of the last Demand; grants apply to these alone.
	pool *pool
	era  int
	tree *poolTree

	leaves []escrow.Demand // scratch
}

// PoolDemand is the usage and the demand of a pool.
type PoolDemand struct {
	// Limits are those of the configuration, less cuts and headroom. Of these Reserve is never granted.
	// Burst is how much of them may be used at once, as time.
	Limits, Reserve escrow.Cost
	Burst           time.Duration
	// Spent is of escrow.Pool.Spent, Bookings and Held are of escrow.Pool.Bookings.
	Spent, Held escrow.Cost
	Bookings    []escrow.Booking
	// Largest is the largest call of late.
	Largest escrow.Cost
	// Tree is the tree of the configuration, and Leaves are the demands of its leaves, in its order,
	// until the next Demand.
	Tree   []PoolNode
	Leaves []escrow.Demand
	PoolPressure
}

// PoolPressure is how much a pool lacks.
type PoolPressure struct {
	// Waiting is the cost of all calls in the queue, and Head that of the first.
	Waiting, Head escrow.Cost
	// Allowed are the allowances in force, and Left is the rest of them.
	Allowed [2]escrow.Allowance
	Left    escrow.Cost
}

// PoolGrant is how much a pool may hand out.
type PoolGrant struct {
	// Allowances are by axis; nil leaves one as it is.
	Allowances [2]*escrow.Allowance
	// Shares are how much of nodes counts here.
	Shares []NodeShare
	// Others is the usage of the rolling minute by other processes; nil if that is not said.
	Others *escrow.Cost
}

// NodeShare is how much of a node counts in this process, in millionths.
type NodeShare struct {
	ID  escrow.NodeID
	PPM int64
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
func (s *SharedPool) Pressure(now time.Time) (PoolPressure, bool) {
	p := s.find()
	if p == nil {
		return PoolPressure{}, false
	}
	gone := s.g.table.Load().pools[s.name] == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set.TPM == 0 && p.set.RPM == 0 && (p.grants == nil || p.set.Slots == 0) || gone && p.quietLocked(now) {
		return PoolPressure{}, false
	}
	return p.pressureLocked(now), true
}

func (p *pool) pressureLocked(now time.Time) PoolPressure {
	d := PoolPressure{Waiting: p.escrow.Demand(escrow.Root).WaitingUnits, Head: p.escrow.Head()}
	for k := range d.Allowed {
		d.Allowed[k], d.Left[k] = p.escrow.Allowed(now, escrow.Axis(k))
	}
	return d
}

// quietLocked reports whether nothing runs or waits, and nothing was used in the last minute.
func (p *pool) quietLocked(now time.Time) bool {
	st := p.escrow.State(now)
	return st.Running == 0 && st.Waiting == 0 && st.Axes[escrow.Tokens].Used == 0 && st.Axes[escrow.Requests].Used == 0
}

// Demand reads the usage and the demand of the pool as of now. It returns false if there is no
// such pool any more.
func (s *SharedPool) Demand(now time.Time) (PoolDemand, bool) {
	d := PoolDemand{Bookings: make([]escrow.Booking, 0, 2048)}
	p := s.find()
	s.pool = p
	if p == nil {
		return d, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.era = p.rates.era
	s.tree = p.claims.tree
	d.Limits = escrow.Cost{escrow.Tokens: p.set.TPM, escrow.Requests: p.set.RPM}
	d.Reserve = escrow.Cost{p.rules.withheld(p.set.TPM), p.rules.withheld(p.set.RPM)}
	d.Burst = p.set.Burst
	d.PoolPressure = p.pressureLocked(now)
	d.Largest = p.escrow.Largest()
	d.Held = p.escrow.Bookings(now, func(b escrow.Booking) { d.Bookings = append(d.Bookings, b) })
	for k := range d.Spent {
		d.Spent[k] = p.escrow.Spent(escrow.Axis(k))
	}
	d.Tree = s.tree.told
	s.leaves = s.leaves[:0]
	for _, id := range s.tree.leaves {
		s.leaves = append(s.leaves, p.escrow.Demand(id))
	}
	d.Leaves = s.leaves
	return d, true
}

// shareStride is how many shares are put in force in one hold of the lock, because a pool may have
// many thousand shares, and calls want the lock too.
const shareStride = 256

// Allow puts in force the grant in answer to the last Demand.
func (s *SharedPool) Allow(now time.Time, grant PoolGrant) {
	p := s.pool
	if p == nil || p != s.find() {
		return
	}
	shares := grant.Shares
	for len(shares) > shareStride {
		s.shareSome(shares[:shareStride])
		shares = shares[shareStride:]
	}
	p.mu.Lock()
	s.shareLocked(shares)
	for k, allowance := range grant.Allowances {
		if allowance != nil && p.rates.era == s.era { // otherwise Spent counts from another beginning
			p.rates.allowed = allowance.Since
			p.rates.learning = time.Time{}
			p.rates.aloneUntil = time.Time{}
			p.rates.alone = false
			p.escrow.Allow(now, escrow.Axis(k), p.cutLocked(now, *allowance))
		}
	}
	if grant.Others != nil {
		p.rates.elsewhere = elsewhere{*grant.Others, now}
	}
	if grant.Allowances != [2]*escrow.Allowance{} {
		s.g.expectGrantLocked(p, now)
	}
	s.g.pumpAndUnlock(p, now)
}

func (s *SharedPool) shareSome(list []NodeShare) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.shareLocked(list)
}

func (s *SharedPool) shareLocked(list []NodeShare) {
	for _, x := range list {
		if s.pool.claims.share(s.tree.paths[x.ID], x.PPM) {
			s.pool.measure.reshared = true
		}
	}
}

// Stop says that another process has taken this one's name: nothing may be handed out any more.
func (s *SharedPool) Stop(now time.Time) {
	p := s.pool
	if p == nil || p != s.find() {
		return
	}
	p.mu.Lock()
	p.rates.learning = time.Time{}
	p.rates.allowed = time.Time{}
	p.rates.alone = true
	if p.grants != nil {
		p.slots.Fence()
	}
	for _, k := range []escrow.Axis{escrow.Tokens, escrow.Requests} {
		p.escrow.Allow(now, k, escrow.Allowance{Since: now, Until: now, Spent: p.escrow.Spent(k)})
	}
	p.noteOutageLocked(now)
	s.g.pumpAndUnlock(p, now)
}

// cutLocked reduces an allowance by the cuts in force. Whoever grants it sees from the next report
// that less is used, and can give the rest to others.
func (p *pool) cutLocked(now time.Time, a escrow.Allowance) escrow.Allowance {
	a.Rate = p.leftLocked(now, a.Rate)
	return a
}

// leftLocked is a rate less the cuts in force.
func (p *pool) leftLocked(now time.Time, rate int64) int64 {
	return rate * p.escrow.State(now).Part / Whole // at most 10¹¹ · 10⁶
}

// Learns says that nothing is granted until the given time, because it is unknown what was used
// before; forgot says that it was known once.
func (s *SharedPool) Learns(until time.Time, forgot bool) {
	if p := s.find(); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rates.learning = until
		p.rates.forgot = forgot
		p.rates.learned = s.g.clock.Now()
		p.noteOutageLocked(p.rates.learned)
	}
}

// grantLocked is how many tokens may still be handed out before the grant expires.
func (p *pool) grantLocked(now time.Time) int64 {
	a, left := p.escrow.Allowed(now, escrow.Tokens)
	if !now.Before(a.Until) {
		return 0
	}
	return max(0, left+int64(float64(a.Rate)*a.Until.Sub(now).Seconds()/escrow.Window.Seconds()))
}
