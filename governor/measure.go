package governor

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/fairness"
)

// measureEvery is how often a pool that is in use is measured.
const measureEvery = time.Second

// measure is the meter of a pool's shares. Its lock is taken before the pool's lock.
type measure struct {
	mu      sync.Mutex
	meter   *fairness.Meter
	planted *treeView // of the tree that the meter has now
	sample  []escrow.Account

	// The pool's lock guards the fields below.
	view     *treeView // of the pool's tree
	reshared bool      // shares have changed, but view has not yet
	stale    bool      // the tree has changed, and view may have nodes that are gone
	timer    Timer     // nil before the first measurement
	running  bool      // the timer runs, or its function does
	stirred  bool      // calls came or ended since the last measurement
	since    time.Time // when measuring began
	from     time.Time // when it began for the first time
}

// treeView is a pool's tree as its meter sees it. It is immutable.
type treeView struct {
	tree   *fairness.Tree
	leaves []*fairness.Leaf
	floors []fairness.Floor
	ids    []escrow.NodeID // of leaves
	index  map[*tenant]int // into leaves
}

// review makes the pool's treeView anew. Only shares, which others grant, change at other times.
func (p *pool) review(shared bool) {
	if shared {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.viewLocked()
		return
	}
	v := p.newView()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measure.view = v
	p.measure.stale = false
}

// viewLocked makes the pool's treeView anew, after shares have changed.
func (p *pool) viewLocked() {
	p.measure.view = p.newView()
	p.measure.reshared = false
	p.measure.stale = false
}

func (p *pool) newView() *treeView {
	v := &treeView{tree: fairness.NewTree(), index: map[*tenant]int{}}
	below := map[escrow.NodeID][]*node{}
	seats := map[escrow.NodeID]*seat{}
	for _, c := range p.tree.present {
		below[c.up] = append(below[c.up], c)
	}
	for _, st := range p.seats {
		seats[st.leaf] = st
	}
	var grow func(up escrow.NodeID, at int)
	grow = func(up escrow.NodeID, at int) {
		slices.SortFunc(below[up], func(a, b *node) int { return cmp.Compare(a.id, b.id) })
		for _, c := range below[up] {
			node := 0
			weight := float64(c.cfg.Weight.Thousandths()) * float64(c.ppm) / wholeNode
			if st := seats[c.id]; st != nil {
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

// stirLocked notes that calls came or ended, and starts measuring the pool unless it runs.
func (g *Governor) stirLocked(p *pool, now time.Time) {
	p.measure.stirred = true
	if p.measure.running {
		return
	}
	p.measure.running = true
	p.measure.since = now
	if p.measure.from.IsZero() {
		p.measure.from = now
	}
	p.markLocked(now)
	if p.measure.timer == nil {
		p.measure.timer = g.clock.AfterFunc(measureEvery, func() { g.measurePool(p) })
	} else {
		p.measure.timer.Reset(measureEvery)
	}
}

// measurePool measures the last second of a pool, and goes on while there is something to measure.
func (g *Governor) measurePool(p *pool) {
	m := &p.measure
	m.mu.Lock()
	defer m.mu.Unlock()
	now := g.clock.Now()
	p.mu.Lock()
	if p.measure.stale { // an Apply is about to make it anew
		p.measure.timer.Reset(measureEvery)
		p.mu.Unlock()
		return
	}
	p.measure.stirred = false
	if p.measure.reshared {
		p.viewLocked()
	}
	view := p.measure.view
	s := p.sampleLocked(now, m.sample[:0])
	p.markLocked(now)
	p.mu.Unlock()

	m.sample = s.Leaves
	m.plant(view, p.measure.from)
	m.meter.Step(now, s)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.measure.running = p.measure.stirred || !m.meter.Quiet()
	if p.measure.running {
		p.measure.timer.Reset(measureEvery)
	}
}

// sampleLocked copies the scheduler's counters.
func (p *pool) sampleLocked(now time.Time, into []escrow.Account) fairness.Sample {
	s := fairness.Sample{Since: p.measure.since, Burst: p.set.Burst, TPM: p.set.Tokens(), Leaves: into}
	if st := p.escrow.State(now); st.Held.IsZero() {
		s.Part = float64(st.Part) / Whole
	}
	for _, id := range p.measure.view.ids {
		s.Leaves = append(s.Leaves, p.escrow.Account(id))
	}
	return s
}

// markLocked marks the calls that are dispatched until the pool is looked at again.
func (p *pool) markLocked(now time.Time) { p.escrow.Mark(fairness.Mark(now.Sub(p.measure.from))) }

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

// figures are those of the pool's last measurement, and the view that they belong to.
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

// sharesLocked lists the shares of those of a list that may use the pool.
func (p *poolView) sharesLocked(now time.Time, list []*tenantView, f fairness.Figures, v *treeView) []TenantShare {
	oldest := map[*tenant]time.Duration{}
	for slot := range p.leases {
		if st := &p.leases[slot]; st.waiter != nil {
			oldest[st.tenant] = max(oldest[st.tenant], now.Sub(st.since))
		}
	}
	var out []TenantShare
	for _, t := range list {
		st := t.access[p.index].seat
		if st == nil || st.gone {
			continue
		}
		node := p.escrow.Node(st.leaf)
		s := TenantShare{
			Tenant: t.name, Weight: t.cfg.Weight, Debt: p.escrow.TokensOf(p.escrow.Account(st.leaf).Debt),
			Queued: node.Waiting, Running: node.Running, OldestWait: oldest[t.tenant],
		}
		if by, calls := p.escrow.KeptOut(st.leaf); by != nil {
			s.KeptOut = calls
			s.KeptOutBy = by.Name
		}
		if v != nil {
			if i, ok := v.index[t.tenant]; ok {
				s.LeafFigures = f.Leaves[i]
			}
		}
		out = append(out, s)
	}
	return out
}
