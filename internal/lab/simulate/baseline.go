package simulate

import (
	"strings"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// Baseline is what a pool would have instead of llmgov. It refuses at once what does not fit, and callers come back as under
// scenario.SDK.
type Baseline int

const (
	// NoGovernor leaves it to the provider to refuse what is beyond its limit, whoever comes.
	NoGovernor Baseline = iota
	// FixedParts gives each tenant the part of the limit that its weight makes, and no more.
	FixedParts
	// TokenBuckets has a bucket for each tenant, which fills by its part of the limit up to a minute's worth, before a
	// provider as of NoGovernor.
	TokenBuckets
	baselines = iota
)

// Key names the baseline in JSON.
func (b Baseline) Key() string { return [...]string{"no_governor", "fixed_parts", "token_buckets"}[b] }

// Title is its name in tables.
func (b Baseline) Title() string { return strings.ReplaceAll(b.Key(), "_", " ") }

// BaselineFigures are over all seeds.
type BaselineFigures struct {
	Name    string          `json:"name"`
	Figures Figures         `json:"figures"`
	Tenants []TenantFigures `json:"tenants"`
}

// hasBaselines reports whether a scenario is one that they can be played in.
func hasBaselines(s *scenario.Scenario) bool {
	return len(s.Nodes) == 0 && len(s.Pool.Upstreams) == 0 && !s.Pool.Adapts()
}

// instead is the run of a plan with a baseline.
func (p *plan) instead(b Baseline) *world {
	s := *p.Scenario
	s.Refuse = scenario.SDK
	q := *p
	q.Scenario = &s
	q.baseline = true
	return newWorld(&q, func(w *world) gate { return newRefuser(b, w) })
}

// refuser is the admission of a baseline. Nobody waits in it.
type refuser struct {
	kind   Baseline
	w      *world
	nodes  []claimant      // of which the first is the pool
	leaves [][]*limits.Set // the limits that the calls of each count in
	guests map[int32]guest // by their calls' ids
}

// claimant is a node of the tree: its weight, and that of its children.
type claimant struct {
	parent        int
	weight, below float64
}

// guest is a call that runs, with its holds in the limits that it counts in.
type guest struct {
	sets  []*limits.Set
	holds []limits.Hold
}

func newRefuser(kind Baseline, w *world) *refuser {
	r := &refuser{kind: kind, w: w, nodes: make([]claimant, 1), guests: map[int32]guest{}}
	leaves := r.grow(nil, w.Tenants, 0)
	provider := r.set(0)
	for _, leaf := range leaves {
		sets := []*limits.Set{provider}
		if kind != NoGovernor {
			sets = append(sets, r.set(leaf))
		}
		r.leaves = append(r.leaves, sets)
	}
	return r
}

// grow hangs tenants under a node, and adds the leaves.
func (r *refuser) grow(leaves []int, tenants []scenario.Tenant, parent int) []int {
	for i := range tenants {
		x := &tenants[i]
		at := len(r.nodes)
		r.nodes[parent].below += float64(x.Weight)
		r.nodes = append(r.nodes, claimant{parent: parent, weight: float64(x.Weight)})
		if len(x.Teams) == 0 {
			leaves = append(leaves, at)
		}
		leaves = r.grow(leaves, x.Teams, at)
	}
	return leaves
}

// set are the limits of a node.
func (r *refuser) set(of int) *limits.Set {
	s := limits.New(false, nil)
	s.Configure(epoch, r.limits(of), 0)
	return s
}

// limits are a node's part of the pool's, of which it has at least one of each.
func (r *refuser) limits(of int) (l limits.Limits) {
	part := 1.0
	for i := of; i != 0; i = r.nodes[i].parent {
		part *= r.nodes[i].weight / r.nodes[r.nodes[i].parent].below
	}
	cut := func(limit int64) int64 {
		if limit == 0 {
			return 0
		}
		return max(1, int64(float64(limit)*part))
	}
	pool := &r.w.Pool
	l.Concurrency = cut(pool.Concurrency)
	for k, limit := range placement.CostOf(pool.Minute()) {
		switch {
		case r.kind != TokenBuckets || of == 0:
			l.Minute[k] = cut(limit)
		case limit > 0:
			rule := shape.Rule{Kind: shape.TokenBucket, Amount: cut(limit), Per: escrow.Window}
			l.Windows = append(l.Windows, limits.Window{Of: limits.Axis(k), Rule: rule})
		}
	}
	return l
}

// ask books what counts at once. The rest of a call whose length is not booked counts when it ends.
func (r *refuser) ask(c *call) {
	cost := placement.CostOf(c.cost(r.w.most(c)))
	if r.w.Pool.Accounting != escrow.AdmitMax {
		cost = limits.Cost{limits.Requests: 1}
	}
	if r.w.Pool.Accounting == escrow.Production {
		cost[limits.Tokens] = c.input
		cost[limits.Input] = c.input
	}
	g := guest{sets: r.leaves[c.leaf]}
	for _, s := range g.sets {
		s.Advance(r.w.clock())
		if _, fits := s.Fits(s.Clip(cost)); !fits {
			r.w.decide(c, &governor.Refusal{})
			return
		}
	}
	for _, s := range g.sets {
		h := s.Book(s.Clip(cost))
		h.Forgive()
		g.holds = append(g.holds, h)
	}
	r.guests[c.id] = g
	r.w.decide(c, nil)
}

func (r *refuser) end(c *call, taken int64, _ bool) {
	g := r.guests[c.id]
	for i, s := range g.sets {
		s.Advance(r.w.clock())
		s.Settle(&g.holds[i], placement.CostOf(c.cost(taken)), 0)
	}
	delete(r.guests, c.id)
}

func (r *refuser) Check() error { return nil }
