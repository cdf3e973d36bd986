package simulate

import (
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/escrow/placement"
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
	return newWorld(&q, func(pool scenario.Pool) gate { return newRefuser(b, &pool) })
}

// refuser is the admission of a baseline. Nobody waits in it.
type refuser struct {
	kind     Baseline
	pool     *scenario.Pool
	nodes    []claimant                      // by id, of which the first is the pool
	sets     map[escrow.NodeID][]*limits.Set // of leaves
	provider *limits.Set
	guests   map[escrow.Handle]guest
	serial   uint32
}

// claimant is a node of the tree: its weight, and that of its children.
type claimant struct {
	parent        escrow.NodeID
	weight, below float64
}

// guest is a call that runs, with its holds in the limits that it counts in.
type guest struct {
	sets  []*limits.Set
	holds []limits.Hold
}

func newRefuser(kind Baseline, pool *scenario.Pool) *refuser {
	r := &refuser{
		kind: kind, pool: pool, nodes: make([]claimant, 1), provider: limits.New(false, nil),
		sets: map[escrow.NodeID][]*limits.Set{}, guests: map[escrow.Handle]guest{},
	}
	r.provider.Configure(epoch, r.limits(escrow.Root), 0)
	return r
}

func (r *refuser) Add(parent escrow.NodeID, n escrow.Node) escrow.NodeID {
	weight := float64(n.Weight)
	r.nodes[parent].below += weight
	r.nodes = append(r.nodes, claimant{parent: parent, weight: weight})
	return escrow.NodeID(len(r.nodes) - 1)
}

// limits are a node's part of the pool's, of which it has at least one of each.
func (r *refuser) limits(of escrow.NodeID) (l limits.Limits) {
	part := 1.0
	for i := of; i != escrow.Root; i = r.nodes[i].parent {
		part *= r.nodes[i].weight / r.nodes[r.nodes[i].parent].below
	}
	cut := func(limit int64) int64 {
		if limit == 0 {
			return 0
		}
		return max(1, int64(float64(limit)*part))
	}
	l.Concurrency = cut(r.pool.Concurrency)
	for k, limit := range placement.CostOf(r.pool.Minute()) {
		switch {
		case r.kind != TokenBuckets || of == escrow.Root:
			l.Minute[k] = cut(limit)
		case limit > 0:
			rule := shape.Rule{Kind: shape.TokenBucket, Amount: cut(limit), Per: escrow.Window}
			l.Windows = append(l.Windows, limits.Window{Of: limits.Axis(k), Rule: rule})
		}
	}
	return l
}

// setsOf are the limits that the calls of a leaf count in.
func (r *refuser) setsOf(leaf escrow.NodeID) []*limits.Set {
	if list := r.sets[leaf]; list != nil {
		return list
	}
	var list []*limits.Set
	if r.kind != NoGovernor {
		list = append(list, limits.New(false, nil))
		list[0].Configure(epoch, r.limits(leaf), 0)
	}
	list = append(list, r.provider)
	r.sets[leaf] = list
	return list
}

// Offer books what counts at once. The rest of a call whose length is not booked counts when it ends.
func (r *refuser) Offer(now time.Time, c escrow.Call) (escrow.Handle, escrow.Answer) {
	cost := placement.CostOf(c.Most)
	if r.pool.Accounting != escrow.AdmitMax {
		cost = limits.Cost{limits.Requests: 1}
	}
	if r.pool.Accounting == escrow.Production {
		cost[limits.Tokens] = c.Input
		cost[limits.Input] = c.Input
	}
	g := guest{sets: r.setsOf(c.Leaf)}
	for _, s := range g.sets {
		s.Advance(now)
		if _, fits := s.Fits(s.Clip(cost)); !fits {
			return escrow.Handle{}, escrow.Answer{Verdict: escrow.TooLong}
		}
	}
	for _, s := range g.sets {
		h := s.Book(s.Clip(cost))
		h.Forgive()
		g.holds = append(g.holds, h)
	}
	r.serial++
	h := escrow.Handle{Slot: r.serial}
	r.guests[h] = g
	return h, escrow.Answer{Verdict: escrow.Admitted}
}

func (r *refuser) Settle(now time.Time, h escrow.Handle, actual escrow.Cost) bool {
	g, known := r.guests[h]
	for i, s := range g.sets {
		s.Advance(now)
		s.Settle(&g.holds[i], placement.CostOf(actual), 0)
	}
	delete(r.guests, h)
	return known
}

func (r *refuser) Progress(time.Time, escrow.Handle, escrow.Progress)    {}
func (r *refuser) Pump(_ time.Time, out []escrow.Handle) []escrow.Handle { return out }
func (r *refuser) Next() (time.Time, bool)                               { return time.Time{}, false }
func (r *refuser) Cancel(time.Time, escrow.Handle) bool                  { return false }
func (r *refuser) Refuse(time.Time, escrow.Handle, uint64) (escrow.Answer, bool) {
	return escrow.Answer{}, false
}
func (r *refuser) Check() error { return nil }
