package governor

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// SharedPool is a pool whose limits are shared with other processes (Config.Shared), as seen by
// whoever shares them out: it reads usage and demand, and puts grants
// in force. It is for one goroutine.
//
// It is of two of the pool's axes. Other processes know these by its Name. A pool with limits on more has another one for these.
type SharedPool struct {
	g    *Governor
	name string // the pool's
	pair int    // index in pairs

	// As of the last Demand; grants apply to these alone.
	pool *pool
	era  int
	tree *poolTree

	leaves []escrow.Demand // scratch
}

// PoolDemand is the usage and the demand of a pool. Amounts are of the two axes of the SharedPool, as are, by index, those in
// Bookings and Leaves.
type PoolDemand struct {
	// Limits are those of the configuration, less cuts and headroom. Of these Reserve is never granted.
	// Burst is how much of them may be used at once.
	Limits, Reserve, Burst [2]int64
	// Spent and Refundable are of the escrow.Pool's methods, Bookings and Held are of its Bookings.
	Spent, Refundable, Held [2]int64
	Bookings                []escrow.Booking
	// Largest is the largest call of late.
	Largest [2]int64
	// Level is the lowest PoolGrant.Level of the pool's other axes; 0 is none.
	Level float64
	// Tree is the tree of the configuration, and Leaves are the demands of its leaves, in its order,
	// until the next Demand.
	Tree   []PoolNode
	Leaves []escrow.Demand
	PoolPressure
}

// PoolPressure is how much a pool lacks.
type PoolPressure struct {
	// Waiting is the cost of all calls in the queue, and Head that of the first.
	Waiting, Head [2]int64
	// Allowed are the allowances in force, and Left is the rest of them. Refunded is of escrow.Pool.Refunded.
	Allowed        [2]escrow.Allowance
	Left, Refunded [2]int64
}

// PoolGrant is how much a pool may hand out of the two axes of a SharedPool.
type PoolGrant struct {
	// Allowances are by axis; nil leaves one as it is.
	Allowances [2]*escrow.Allowance
	// Shares are how much of nodes counts here.
	Shares []NodeShare
	// Others is the usage of the rolling minute by other processes; nil if that is not said.
	Others *[2]int64
	// Level is how much there is for each unit of weight, as a virtual cost a minute; 0 is as much as anybody asks for.
	Level float64
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
	g.look()
	defer g.unlock()
	var out []*SharedPool
	tb := g.table
	add := func(p *pool) {
		for pair := range pairs {
			if pair == 0 || p.rated(pair) {
				out = append(out, &SharedPool{g: g, name: p.name, pair: pair})
			}
		}
	}
	for _, p := range tb.inOrder.pools {
		add(p.pool)
	}
	for _, p := range tb.gone {
		add(p)
	}
	return out
}

// Name is that of the account which processes that share the limits have: the pool's name, for the first pair of its axes.
func (s *SharedPool) Name() string { return accountOf(s.name, s.pair) }

func accountOf(pool string, pair int) string {
	if pair == 0 {
		return pool
	}
	return pool + beforeAxes + pairs[pair][0].String() + " " + pairs[pair][1].String()
}

// beforeAxes is in no name of a pool.
const beforeAxes = ", "

// Accounts are the names of all accounts that a pool may have.
func Accounts(pool string) (names []string) {
	for pair := range pairs {
		names = append(names, accountOf(pool, pair))
	}
	return names
}

// PoolOf is the name of the pool of which an account is (SharedPool.Name).
func PoolOf(account string) string {
	pool, _, _ := strings.Cut(account, beforeAxes)
	return pool
}

// find returns the pool of that name, or nil.
func (s *SharedPool) find() *pool { return s.g.poolOf(s.name) }

// Rated reports whether a pool, or that of an account, has a limit on anything a minute.
func (g *Governor) Rated(pool string) bool {
	g.look()
	defer g.unlock()
	p := g.poolOf(PoolOf(pool))
	if p == nil {
		return false
	}
	return p.set.Minute() != escrow.Cost{}
}

// Expect is how many nodes there are according to the configuration; 0 if it does not say.
func (s *SharedPool) Expect() int {
	s.g.lock()
	defer s.g.unlock()
	p := s.find()
	if p == nil {
		return 0
	}
	return p.rules.ExpectNodes
}

// Pressure is how much the pool lacks now. It is false if the pool has nothing to share, or if no
// configuration has it any more and nothing of it counts: its limits would go on holding for
// others.
func (s *SharedPool) Pressure(now time.Time) (PoolPressure, bool) {
	s.g.lock()
	defer s.g.unlock()
	p := s.find()
	if p == nil {
		return PoolPressure{}, false
	}
	gone := s.g.table.pools[s.name] == nil
	shares := p.rated(s.pair)
	if s.pair == 0 { // it has the shares of tenants, too
		shares = p.set.Minute() != escrow.Cost{} || p.grants != nil && p.set.Slots > 0
	}
	if !shares || gone && p.quiet(now) {
		return PoolPressure{}, false
	}
	return s.pressure(now, p), true
}

func (s *SharedPool) pressure(now time.Time, p *pool) PoolPressure {
	d := PoolPressure{Waiting: s.of(p.escrow.Demand(escrow.Root).WaitingUnits), Head: s.of(p.escrow.Head())}
	for i, k := range pairs[s.pair] {
		d.Allowed[i], d.Left[i] = p.escrow.Allowed(now, k)
		d.Refunded[i] = p.escrow.Refunded(k)
	}
	return d
}

// of are the amounts of a cost.
func (s *SharedPool) of(c escrow.Cost) [2]int64 { return amounts(s.pair, c) }

// quiet reports whether nothing runs or waits, and nothing was used in the last minute.
func (p *pool) quiet(now time.Time) bool {
	st := p.escrow.State(now)
	used := slices.ContainsFunc(st.Axes[:], func(a escrow.AxisState) bool { return a.Used != 0 })
	return st.Running == 0 && st.Waiting == 0 && !used
}

// Demand reads the usage and the demand of the pool as of now. It returns false if there is no
// such pool any more.
func (s *SharedPool) Demand(now time.Time) (PoolDemand, bool) {
	d := PoolDemand{Bookings: make([]escrow.Booking, 0, 2048)}
	s.g.lock()
	defer s.g.unlock()
	p := s.find()
	s.pool = p
	if p == nil {
		return d, false
	}
	s.era = p.rates.era
	s.tree = p.tree.shared
	axes := pairs[s.pair]
	d.Limits = s.of(p.set.Minute())
	d.PoolPressure = s.pressure(now, p)
	d.Largest = s.of(p.escrow.Largest())
	d.Refundable = s.of(p.escrow.Refundable())
	d.Held = s.of(p.escrow.Bookings(now, func(b escrow.Booking) {
		if at := slices.Index(axes[:], b.Axis); at >= 0 {
			b.Axis = escrow.Axis(at)
			d.Bookings = append(d.Bookings, b)
		}
	}))
	loss := p.rules.Loss(0)
	for i, k := range axes {
		d.Reserve[i] = loss.Withheld(d.Limits[i])
		d.Burst[i] = p.set.BurstOf(k)
		d.Spent[i] = p.escrow.Spent(k)
	}
	for pair, level := range p.rates.levels {
		if pair != s.pair && p.rated(pair) && level > 0 && (d.Level == 0 || level < d.Level) {
			d.Level = level
		}
	}
	d.Tree = s.tree.told
	s.leaves = s.leaves[:0]
	for _, id := range s.tree.leaves {
		s.leaves = append(s.leaves, s.demandOf(p.escrow.Demand(id)))
	}
	d.Leaves = s.leaves
	return d, true
}

// demandOf is a demand whose costs are of the two axes.
func (s *SharedPool) demandOf(d escrow.Demand) escrow.Demand {
	for _, c := range []*escrow.Cost{&d.Units, &d.WaitingUnits, &d.CallUnits} {
		two := s.of(*c)
		*c = escrow.Cost{two[0], two[1]}
	}
	return d
}

// Allow puts in force the grant in answer to the last Demand.
func (s *SharedPool) Allow(now time.Time, grant PoolGrant) {
	s.g.lock()
	defer s.g.unlock()
	p := s.pool
	if p == nil || p != s.find() {
		return
	}
	if s.pair != 0 { // the demand is the same, and so is the level
		grant.Shares = nil
	}
	if s.g.recorded {
		s.g.queueTold(Told{Verb: ratesAllow, Pool: s.name, Pair: s.pair, Now: s.g.line.since(now), Rates: s.told(p, &grant)})
	}
	s.g.allowRates(p, s.pair, now, &grant, s.tree.paths, s.era)
}

// allowRates puts a grant of a pair of a pool's axes in force, given the paths of nodes, and the limits for which it was asked.
func (g *Governor) allowRates(p *pool, pair int, now time.Time, grant *PoolGrant, paths map[escrow.NodeID]string, era int) {
	for i, x := range grant.Shares {
		if p.tree.share(paths[x.ID], x.PPM) {
			p.measure.reshared = true
		}
		now = g.breathe(i, now)
	}
	for k, allowance := range grant.Allowances {
		if allowance != nil && p.rates.era == era { // other limits may have come while others had the lock
			p.rates.allowed[pair] = allowance.Since
			p.rates.aloneUntil[pair] = time.Time{}
			p.rates.alone = false
			p.escrow.Allow(now, pairs[pair][k], p.cut(now, *allowance))
		}
	}
	if !p.cutOff(now) {
		p.rates.learning = time.Time{}
	}
	if grant.Others != nil {
		p.rates.elsewhere[pair] = elsewhere{*grant.Others, now}
		p.rates.levels[pair] = grant.Level
	}
	if grant.Allowances != [2]*escrow.Allowance{} {
		g.expectGrant(p, now)
	}
	g.pump(p, now)
}

// Stop says that another process has taken this one's name: nothing may be handed out any more.
func (s *SharedPool) Stop(now time.Time) {
	s.g.lock()
	defer s.g.unlock()
	p := s.pool
	if p == nil || p != s.find() {
		return
	}
	s.g.queueTold(Told{Verb: ratesStop, Pool: s.name, Now: s.g.line.since(now)})
	s.g.stop(p, now)
}

func (g *Governor) stop(p *pool, now time.Time) {
	p.rates.learning = time.Time{}
	clear(p.rates.allowed[:])
	p.rates.alone = true
	if p.grants != nil {
		p.slots.Fence()
	}
	for k := range escrow.Axis(escrow.Rolling) {
		p.escrow.Allow(now, k, escrow.Allowance{Since: now, Until: now, Spent: p.escrow.Spent(k)})
	}
	g.noteOutage(p, now)
	g.pump(p, now)
}

// cut reduces an allowance by the cuts in force. Whoever grants it sees from the next report
// that less is used, and can give the rest to others.
func (p *pool) cut(now time.Time, a escrow.Allowance) escrow.Allowance {
	a.Rate = p.afterCuts(now, a.Rate)
	return a
}

// afterCuts is a rate less the cuts in force.
func (p *pool) afterCuts(now time.Time, rate int64) int64 {
	return rate * p.escrow.State(now).Part / Whole // at most 10¹¹ · 10⁶
}

// Learns says that nothing is granted until the given time, because it is unknown what was used
// before; forgot says that it was known once.
func (s *SharedPool) Learns(until time.Time, forgot bool) {
	s.g.lock()
	defer s.g.unlock()
	if p := s.find(); p != nil {
		s.g.queueTold(Told{Verb: ratesLearn, Pool: s.name, Until: s.g.line.since(until), Worse: forgot})
		s.g.learns(p, until, forgot)
	}
}

func (g *Governor) learns(p *pool, until time.Time, forgot bool) {
	p.rates.learning = until
	p.rates.forgot = forgot
	p.rates.learned = g.line.now
	g.noteOutage(p, p.rates.learned)
}

// grant is how much may still be handed out before the grants expire.
func (p *pool) grant(now time.Time) (c escrow.Cost) {
	for k := range c {
		if a, left := p.escrow.Allowed(now, escrow.Axis(k)); now.Before(a.Until) {
			c[k] = max(0, left+int64(float64(a.Rate)*a.Until.Sub(now).Seconds()/escrow.Window.Seconds()))
		}
	}
	return c
}
