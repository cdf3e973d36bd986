package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// fluidOf is what the oracle gives each leaf in each minute.
func fluidOf(t *testing.T, text string, requests []Request) [][]float64 {
	t.Helper()
	p := newPlan(parsed(t, text), 1)
	g := newGrid(0, time.Minute, p.Duration, len(p.tree.Leaves))
	p.fluid(requests, measures(&p.Pool)[:1], []*grid{g})
	return g.cells
}

const openBesideWorkers = `
duration: 2m
warmup: 1m
pool: {tpm: 6000}
cost: {dist: constant, mean: 100}
tenants:
  - {name: a, weight: 2, load: {kind: open, tokens_per_second: 1}}
  - {name: b, load: {kind: backlogged, workers: 9}}
`

func TestFluid(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		what     string
		text     string
		requests []Request
		want     [][]float64
	}{
		{
			"what an open tenant asks for it gets, up to its share, and the workers the rest", openBesideWorkers,
			[]Request{{At: 30 * second, Tokens: 400}, {At: 100 * second, Tokens: 200}},
			[][]float64{{400, 5600}, {200, 5800}},
		},
		{
			// 2/3 of the rate for the first minute's last 3 s and then 12 s more.
			"it gets no more than its share while it waits, and callers give up after 15 s", openBesideWorkers,
			[]Request{{At: 57 * second, Tokens: 1500}, {At: 57 * second, Tokens: 500}, {At: 58 * second, Tokens: 100}},
			[][]float64{{200, 5800}, {1300, 4700}},
		},
		{
			"workers ask for no more than they can take", `
duration: 2m
warmup: 1m
pool: {tpm: 6000}
cost: {dist: constant, mean: 100}
service: 9970ms
tenants:
  - {name: a, load: {kind: backlogged, workers: 3}}
  - {name: b, load: {kind: backlogged, workers: 90}}
`, nil,
			[][]float64{{1800, 4200}, {1800, 4200}},
		},
		{
			"a stream takes its tokens as it produces them", `
duration: 2m
warmup: 1m
pool: {tpm: 6000, accounting: production}
tenants:
  - {name: a, load: {kind: open, tokens_per_second: 1}}
`,
			[]Request{{At: 50 * second, Tokens: 410, Input: 110, Run: 30 * second}},
			[][]float64{{210}, {200}},
		},
		{
			"unused rate may be caught up for a second, not more", `
duration: 2m
warmup: 1m
pool: {tpm: 6000}
tenants: [{name: a, load: {kind: open, tokens_per_second: 1}}]
`,
			[]Request{{At: 50 * second, Tokens: 5000}},
			[][]float64{{1100}, {3900}},
		},
	} {
		got := fluidOf(t, c.text, c.requests)
		for k := range c.want {
			for i := range c.want[k] {
				if math.Abs(got[k][i]-c.want[k][i]) > 1e-3*6000 {
					t.Errorf("%s: minute %d: got %.1f, want %.1f", c.what, k, got[k], c.want[k])
					break
				}
			}
		}
	}
}

// Whatever is asked, the oracle shares out neither more than there is nor more
// than was asked for, and leaves nothing idle while workers want it.
func TestFluidConserves(t *testing.T) {
	p := newPlan(parsed(t, openBesideWorkers), 1)
	rapid.Check(t, func(t *rapid.T) {
		var requests []Request
		asked := 0.0
		at := time.Duration(0)
		for range rapid.IntRange(0, 40).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 10_000).Draw(t, "gap")) * time.Millisecond
			n := rapid.Int64Range(1, 2000).Draw(t, "tokens")
			if at < p.Duration {
				requests = append(requests, Request{At: at, Tokens: n})
				asked += float64(n)
			}
		}
		g := newGrid(0, time.Minute, p.Duration, 2)
		p.fluid(requests, measures(&p.Pool), []*grid{g})
		if a := g.total(0); a > asked+1e-6 {
			t.Fatalf("gave %g of %g that were asked for", a, asked)
		}
		for k, row := range g.cells {
			if s := sum(row); math.Abs(s-6000) > 1e-6 {
				t.Fatalf("minute %d: %g of 6000 are shared out", k, s)
			}
		}
	})
}

func TestClairvoyant(t *testing.T) {
	p := newPlan(parsed(t, openBesideWorkers), 1)
	g := newGrid(0, time.Minute, p.Duration, 2)
	// It gives a late request of the first minute all that the weight entitles to.
	p.clairvoyant([]Request{{At: 59 * time.Second, Tokens: 9000}, {At: 80 * time.Second, Tokens: 1000}}, measures(&p.Pool)[0], g)
	want := [][]float64{{4000, 2000}, {1000, 5000}}
	for k := range want {
		for i := range want[k] {
			if math.Abs(g.cells[k][i]-want[k][i]) > 1e-6 {
				t.Errorf("minute %d: got %v, want %v", k, g.cells[k], want[k])
			}
		}
	}
}

// TestFluid_AnAxisThatHoldsNobodyBack: a limit on requests that is never reached changes nothing of what
// tenants are entitled to, patience included.
func TestFluid_AnAxisThatHoldsNobodyBack(t *testing.T) {
	entitled := func(rpm int64) []TenantFigures {
		s := testkit.Must(scenario.Find("monday"))(t)
		s.Pool.RPM = rpm
		s.Duration = 3 * time.Minute
		res := testkit.Must(Run(t.Context(), s, Options{Seeds: []uint64{1}}))(t)
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
