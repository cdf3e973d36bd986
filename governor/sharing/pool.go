package sharing

import (
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
)

// Pool speaks for the rates of one pool, or of two of its axes (governor.SharedPool). It is for one goroutine.
type Pool struct {
	shared *governor.SharedPool
}

var _ runner.Pool = (*Pool)(nil)

// Name is that by which other processes know it.
func (p *Pool) Name() string { return p.shared.Name() }

// Expect is how many nodes there are according to the configuration; 0 if it does not say.
func (p *Pool) Expect() int { return p.shared.Expect() }

// Learns says that nothing is granted until the given time, because earlier usage is unknown; forgot says that it was known once.
func (p *Pool) Learns(until time.Time, forgot bool) { p.shared.Learns(until, forgot) }

// Alone tells the pool that no answers come, and how many nodes there were when that was last known; 0
// if it never was.
func (p *Pool) Alone(now time.Time, nodes int) { p.shared.Alone(now, nodes) }

// Pressure is how much the pool lacks now. It is false if the pool has nothing to share.
func (p *Pool) Pressure(now time.Time) (federation.Pressure, bool) {
	d, ok := p.shared.Pressure(now)
	if !ok {
		return federation.Pressure{}, false
	}
	return federation.Pressure{Waiting: d.Waiting, Head: d.Head, Holding: holding(&d)}, true
}

func holding(d *governor.PoolPressure) (h [2]federation.Holding) {
	for k, a := range d.Allowed {
		h[k] = federation.Holding{Left: d.Left[k], Rate: a.Rate, Refunded: d.Refunded[k], Until: a.Until}
	}
	return h
}

// Report tells the usage, holdings and demands of the pool as of now. The governor's lock is held while they are
// copied, but not while the report is made from them.
func (p *Pool) Report(now time.Time) *federation.Report {
	d, ok := p.shared.Demand(now)
	r := &federation.Report{Bookings: d.Bookings}
	if !ok {
		return r
	}
	r.Limits = d.Limits
	r.Burst = d.Burst
	r.Level = d.Level
	r.Reserve = d.Reserve
	r.Spent = d.Spent
	r.Held = d.Held
	r.Refundable = d.Refundable
	r.Holding = holding(&d.PoolPressure)
	for k := range d.Limits {
		r.Largest[k] = max(d.Largest[k], d.Head[k])
	}
	r.Tree = tree(&d)
	return r
}

// tree are the claims of the pool's nodes, with the demands of the leaves.
func tree(d *governor.PoolDemand) []federation.Claim {
	claims := make([]federation.Claim, len(d.Tree))
	leaves := 0
	for i, n := range d.Tree {
		claims[i] = federation.Claim{ID: n.ID, Path: n.Path, Parent: n.Parent, Weight: n.Weight, Leaf: n.Leaf}
		if n.Leaf {
			claims[i].Demand = d.Leaves[leaves]
			leaves++
		}
	}
	return claims
}

// Apply puts in force the commands that follow from the answer to the last report.
func (p *Pool) Apply(now time.Time, commands []federation.Command) {
	var grant governor.PoolGrant
	for _, c := range commands {
		switch c := c.(type) {
		case federation.Allow:
			grant.Allowances[c.Axis] = &c.Allowance
		case federation.Share:
			grant.Shares = append(grant.Shares, governor.NodeShare{ID: c.ID, PPM: c.PPM})
		case federation.Others:
			used := [2]int64(c.Used)
			grant.Others = &used
			grant.Level = c.Level
		case federation.Stop:
			p.shared.Stop(now)
			return
		}
	}
	p.shared.Allow(now, grant)
}
