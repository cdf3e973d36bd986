package governor

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/fairness"
)

// measureEvery is how often a pool that is in use is measured.
const measureEvery = time.Second

// measure is the meter of a pool's shares. What it measures is evaluated without the governor's lock.
type measure struct {
	mu      sync.Mutex // guards the fields below
	meter   *fairness.Meter
	planted *treeView // of the tree that the meter has now

	// The governor's lock guards these.
	view     *treeView // of the pool's tree
	reshared bool      // shares have changed, but view has not yet
	stale    bool      // the tree or the limit has changed: view may have nodes that are gone, or other floors
	timer    Timer     // nil before the first measurement
	running  bool      // the timer runs, or its function does
	stirred  bool      // calls came or ended since the last measurement
	since    time.Time // when measuring began
	from     time.Time // when it began for the first time
	scratch  []escrow.Account
}

// treeView is a pool's tree as its meter sees it. It is immutable.
type treeView struct {
	tree   *fairness.Tree
	leaves []*fairness.Leaf
	floors []fairness.Floor
	ids    []escrow.NodeID // of leaves
	index  map[*tenant]int // into leaves
}

// reviewPool makes the pool's treeView anew. Only shares, which others grant, change at other times.
func (g *Governor) reviewPool(p *pool) {
	if g.shared {
		p.viewAnew()
		g.aside(runtime.Gosched)
		return
	}
	var v *treeView
	g.aside(func() { v = p.newView() }) // only an Apply changes what it reads
	p.measure.view = v
	p.measure.stale = false
}

// viewAnew makes the pool's treeView anew, after shares have changed.
func (p *pool) viewAnew() {
	p.measure.view = p.newView()
	p.measure.reshared = false
	p.measure.stale = false
}

func (p *pool) newView() *treeView {
	v := &treeView{tree: fairness.NewTree(), index: make(map[*tenant]int, len(p.seats))}
	below := map[escrow.NodeID][]*node{}
	for _, c := range p.tree.present {
		below[c.up] = append(below[c.up], c)
	}
	var grow func(up escrow.NodeID, at int)
	grow = func(up escrow.NodeID, at int) {
		slices.SortFunc(below[up], func(a, b *node) int { return cmp.Compare(a.id, b.id) })
		for _, c := range below[up] {
			node := 0
			weight := float64(c.cfg.Weight.Thousandths()) * float64(c.ppm) / wholeNode
			if st := c.seat; st != nil {
				node = v.tree.Leaf(at, weight)
				v.index[st.tenant] = len(v.leaves)
				v.leaves = append(v.leaves, st.measured)
				v.ids = append(v.ids, st.leaf)
			} else {
				node = v.tree.Inner(at, weight)
				grow(c.id, node)
			}
			if c.cfg.Floor > 0 && p.base.TPM > 0 {
				part := float64(c.cfg.Floor) / float64(p.base.TPM)
				v.floors = append(v.floors, fairness.Floor{Node: node, Virtual: int64(part * float64(escrow.WholeMinute))})
			}
		}
	}
	grow(escrow.Root, fairness.Root)
	return v
}

// stir notes that calls came or ended, and starts measuring the pool unless it runs.
func (g *Governor) stir(p *pool, now time.Time) {
	p.measure.stirred = true
	if p.measure.running {
		return
	}
	p.measure.running = true
	p.measure.since = now
	if p.measure.from.IsZero() {
		p.measure.from = now
	}
	p.mark(now)
	if p.measure.timer == nil {
		p.measure.timer = g.after(measureEvery, func(now time.Time) { g.measurePool(p, now) })
	} else {
		p.measure.timer.Reset(measureEvery)
	}
}

// measurePool measures the last second of a pool, and goes on while there is something to measure.
func (g *Governor) measurePool(p *pool, now time.Time) {
	m := &p.measure
	if m.stale { // an Apply is about to make it anew
		m.timer.Reset(measureEvery)
		return
	}
	m.stirred = false
	if m.reshared {
		p.viewAnew()
	}
	view := m.view
	s := p.sample(now, m.scratch[:0])
	p.mark(now)
	if g.recorded {
		m.measured(&s, m.step(now, view, &s), measureEvery)
		return
	}
	g.line.clock.AfterFunc(soon, func() { g.evaluate(m, now, view, &s) }) // apart from a call that came by, which neither pays for it nor waits
}

// evaluate is the rest of a measurement, without the lock as far as it takes long.
func (g *Governor) evaluate(m *measure, now time.Time, view *treeView, s *fairness.Sample) {
	quiet := m.step(now, view, s)
	g.lock()
	defer g.unlock()
	m.measured(s, quiet, now.Add(measureEvery).Sub(g.line.now))
}

// measured ends a measurement, and has another one follow after so long if there is something to measure.
func (m *measure) measured(s *fairness.Sample, quiet bool, next time.Duration) {
	m.scratch = s.Leaves
	m.running = m.stirred || !quiet
	if m.running {
		m.timer.Reset(next)
	}
}

// step evaluates the last second, and reports whether there is nothing more to measure.
func (m *measure) step(now time.Time, view *treeView, s *fairness.Sample) (quiet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plant(view, m.from)
	m.meter.Step(now, *s)
	return m.meter.Quiet()
}

// sample copies the scheduler's counters.
func (p *pool) sample(now time.Time, into []escrow.Account) fairness.Sample {
	s := fairness.Sample{Since: p.measure.since, Burst: p.set.Burst, TPM: p.set.Tokens(), Leaves: into}
	if st := p.escrow.State(now); st.Held.IsZero() {
		s.Part = float64(st.Part) / Whole
	}
	for _, id := range p.measure.view.ids {
		s.Leaves = append(s.Leaves, p.escrow.Account(id))
	}
	return s
}

// mark marks the calls that are dispatched until the pool is looked at again.
func (p *pool) mark(now time.Time) { p.escrow.Mark(fairness.Mark(now.Sub(p.measure.from))) }

// plant gives the meter a view of the pool's tree.
func (m *measure) plant(v *treeView, since time.Time) {
	if m.meter == nil {
		m.meter = fairness.NewMeter(since)
	}
	if m.planted != v {
		m.planted = v
		m.meter.Plant(v.tree, v.leaves, v.floors)
	}
}

// figures are those of the pool's last measurement, and the view that they belong to. Call it without the lock.
func (m *measure) figures() (fairness.Figures, *treeView) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.meter == nil {
		return fairness.Figures{Jain: 1}, nil
	}
	return m.meter.Figures(), m.planted
}

// TenantShare is the share of a pool that a tenant had, and that to which it was entitled.
type TenantShare struct {
	Tenant string
	// LeafFigures are of the last minute, and of all time.
	fairness.LeafFigures
	// Weight is the claim on the parent's share. Debt is, in tokens, what the tenant had before its
	// turn.
	Weight escrow.Weight
	Debt   int64
	// Queued calls wait, the first of them for OldestWait; Running calls run.
	Queued, Running int
	OldestWait      time.Duration
	// KeptOut is how many of the queued calls a rule of slots keeps waiting: they are in no demand, and so in no entitlement.
	KeptOut   int
	KeptOutBy string // its key; "" if none does
}

// oldestWaits are how long the first call of each tenant has waited in the pool's queue.
func (p *pool) oldestWaits(now time.Time) map[*tenant]time.Duration {
	oldest := map[*tenant]time.Duration{}
	for slot := range p.leases {
		if st := &p.leases[slot]; st.waiter != nil {
			oldest[st.tenant] = max(oldest[st.tenant], now.Sub(st.since))
		}
	}
	return oldest
}

// tenantShare is the share of one of the pool's seats, but for what was measured of it.
func (p *pool) tenantShare(t *tenantView, st *seat, oldest time.Duration) TenantShare {
	node := p.escrow.Node(st.leaf)
	s := TenantShare{
		Tenant: t.name, Weight: t.cfg.Weight, Debt: p.escrow.TokensOf(p.escrow.Account(st.leaf).Debt),
		Queued: node.Waiting, Running: node.Running, OldestWait: oldest,
	}
	if by, calls := p.escrow.KeptOut(st.leaf); by != nil {
		s.KeptOut = calls
		s.KeptOutBy = by.Name
	}
	return s
}
