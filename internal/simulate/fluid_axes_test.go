package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/simulate/scenario"
)

// TestFluid_AnAxisThatHoldsNobodyBack: a limit on requests that is never reached changes nothing of what
// tenants are entitled to, patience included.
func TestFluid_AnAxisThatHoldsNobodyBack(t *testing.T) {
	entitled := func(rpm int64) []TenantFigures {
		s, err := scenario.Find("monday")
		if err != nil {
			t.Fatal(err)
		}
		s.Pool.RPM = rpm
		s.Duration = 3 * time.Minute
		res, err := Run(t.Context(), s, Options{Seeds: []uint64{1}})
		if err != nil {
			t.Fatal(err)
		}
		return res.Tenants
	}
	with := entitled(5000)
	for i, alone := range entitled(0) {
		if math.Abs(float64(with[i].Entitled-alone.Entitled)) > 0.001 {
			t.Errorf("%s is entitled to %.4f of the pool, and with 5000 requests a minute beside to %.4f", alone.Name, alone.Entitled, with[i].Entitled)
		}
	}
}

// dumbFluid gives crumb by crumb: the leaf that has had least over its weight gets the next one, going down
// the tree, until a limit is used up.
type dumbFluid struct {
	*plan
	measures []measure
	queues   [][]dumbRequest
}

type dumbRequest struct {
	left    float64 // parts of it
	share   float64 // dominant share of all of it
	takes   amounts
	expires time.Duration
	begun   bool
}

// dumbNode is a node of the tree in one step.
type dumbNode struct {
	weight, had float64
	leaf        int // -1 for an inner node
	children    []*dumbNode
}

func dumbTree(tenants []scenario.Tenant, leaf *int) (nodes []*dumbNode) {
	for _, x := range tenants {
		n := &dumbNode{weight: float64(x.Weight), leaf: -1}
		n.children = dumbTree(x.Teams, leaf)
		if len(n.children) == 0 {
			n.leaf = *leaf
			*leaf++
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func (d *dumbFluid) wants(n *dumbNode) bool {
	if n.leaf >= 0 {
		return len(d.queues[n.leaf]) > 0
	}
	for _, c := range n.children {
		if d.wants(c) {
			return true
		}
	}
	return false
}

// next is the path to the leaf that has had least; nil when nobody wants anything.
func (d *dumbFluid) next(nodes []*dumbNode) []*dumbNode {
	var first *dumbNode
	for _, n := range nodes {
		if d.wants(n) && (first == nil || n.had/n.weight < first.had/first.weight) {
			first = n
		}
	}
	if first == nil {
		return nil
	}
	return append([]*dumbNode{first}, d.next(first.children)...)
}

func (d *dumbFluid) run(requests []Request, into []*grid) {
	const crumbs = 200 // of a step
	var spare amounts
	next := 0
	for now := time.Duration(0); now < d.Duration; now += fluidStep {
		for ; next < len(requests) && requests[next].At < now+fluidStep; next++ {
			d.come(&requests[next])
		}
		for i, q := range d.queues {
			var still []dumbRequest
			for _, r := range q {
				if r.begun || r.expires >= now {
					still = append(still, r)
				}
			}
			d.queues[i] = still
		}
		there := spare
		for k, m := range d.measures {
			there[k] += m.perSecond() * fluidStep.Seconds()
		}
		leaf := 0
		tree := dumbTree(d.Tenants, &leaf)
		for d.crumb(now, tree, &there, fluidStep.Seconds()/60/crumbs, into) {
		}
		for k, m := range d.measures {
			spare[k] = min(there[k], m.perSecond())
		}
	}
}

func (d *dumbFluid) come(r *Request) {
	x := dumbRequest{left: 1, expires: r.At + d.Patience}
	for k, m := range d.measures {
		x.takes[k] = m.of(r)
		x.share = max(x.share, m.of(r)/m.usable)
	}
	d.queues[r.Tenant] = append(d.queues[r.Tenant], x)
}

// crumb hands out one; false when nobody wants one, or a limit is used up.
func (d *dumbFluid) crumb(now time.Duration, tree []*dumbNode, there *amounts, size float64, into []*grid) bool {
	path := d.next(tree)
	if path == nil {
		return false
	}
	leaf := path[len(path)-1].leaf
	r := &d.queues[leaf][0]
	part := min(r.left, size/r.share)
	for k := range d.measures {
		if there[k] < part*r.takes[k] {
			return false
		}
	}
	for k := range d.measures {
		there[k] -= part * r.takes[k]
		into[k].add(now, leaf, part*r.takes[k])
	}
	for _, n := range path {
		n.had += part * r.share
	}
	r.begun = true
	r.left -= part
	if r.left < 1e-12 {
		d.queues[leaf] = d.queues[leaf][1:]
	}
	return true
}

// TestFluid_SeveralAxesLikeTheDumbOracle: dominant shares over a tree, with patience, are what one gets who
// hands out crumbs.
func TestFluid_SeveralAxesLikeTheDumbOracle(t *testing.T) {
	const world = `
duration: 40s
warmup: 20s
patience: 5s
pool: {tpm: 6000, rpm: %d}
tenants:
  - {name: a, weight: 2, load: {kind: open, tokens_per_second: 1}}
  - {name: b, weight: 1, load: {kind: open, tokens_per_second: 1}}
  - {name: c, weight: 3, teams: [{name: x, weight: 2, load: {kind: open, tokens_per_second: 1}}, {name: y, load: {kind: open, tokens_per_second: 1}}]}
`
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := newPlan(parsed(t, fmt.Sprintf(world, []int{0, 60, 120, 600}[seed%4])), 1)
		sizes := []int64{20, 60, 150, 400}
		var requests []Request
		for at := time.Duration(0); at < p.Duration; at += time.Duration(rng.Int64N(int64(600 * time.Millisecond))) {
			leaf := rng.IntN(4)
			requests = append(requests, Request{Tenant: int32(leaf), At: at, Tokens: 1 + rng.Int64N(2*sizes[leaf])})
		}
		measures := measures(&p.Pool)
		var got, want []*grid
		for range measures {
			got = append(got, newGrid(0, p.Duration, p.Duration, 4))
			want = append(want, newGrid(0, p.Duration, p.Duration, 4))
		}
		p.fluid(requests, measures, got)
		dumb := &dumbFluid{plan: p, measures: measures, queues: make([][]dumbRequest, 4)}
		dumb.run(requests, want)
		for k, m := range measures {
			for i := range got[k].cells[0] {
				// One that is begun just before its caller gives up is served to its end.
				more := m.of(&Request{Tokens: 2 * sizes[i]}) + 0.01*m.perSecond()*p.Duration.Seconds()
				if math.Abs(got[k].cells[0][i]-want[k].cells[0][i]) > more {
					t.Fatalf("seed %d, %d requests a minute: of %v leaves are given %.1f, crumb by crumb %.1f", seed, p.Pool.RPM, m.axis, got[k].cells[0], want[k].cells[0])
				}
			}
		}
	}
}
