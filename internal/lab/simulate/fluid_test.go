package simulate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
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

// TestFluid_DominantShares: of requests and tokens that are both short, tenants get the same of what each takes most of, and teams
// theirs of that by weight. With 0.8 of the minute each, a's small requests and c's large ones take all requests.
func TestFluid_DominantShares(t *testing.T) {
	p := newPlan(parsed(t, `
duration: 1m
warmup: 0s
patience: 5s
pool: {tpm: 6000, rpm: 60}
tenants:
  - {name: a, load: {kind: open, tokens_per_second: 1}}
  - {name: c, teams: [{name: x, weight: 3, load: {kind: open, tokens_per_second: 1}}, {name: y, load: {kind: open, tokens_per_second: 1}}]}
`), 1)
	var requests []Request
	for at := time.Duration(0); at < p.Duration; at += time.Second {
		for leaf, tokens := range []int64{10, 400, 400} {
			requests = append(requests, Request{Tenant: int32(leaf), At: at, Tokens: tokens})
			requests = append(requests, Request{Tenant: int32(leaf), At: at, Tokens: tokens})
		}
	}
	want := map[escrow.Axis][]float64{escrow.Tokens: {480, 3600, 1200}, escrow.Requests: {48, 9, 3}}
	measures := measures(&p.Pool)
	var got []*grid
	for range measures {
		got = append(got, newGrid(0, p.Duration, p.Duration, 3))
	}
	p.fluid(requests, measures, got)
	for k, m := range measures {
		for leaf, x := range got[k].cells[0] {
			if math.Abs(x/want[m.axis][leaf]-1) > 0.01 {
				t.Errorf("leaf %d gets %.1f of %v, want %.0f", leaf, x, m.axis, want[m.axis][leaf])
			}
		}
	}
}

// TestWholeCalls: the larger calls are, the more of a minute goes to the wrong tenant whoever schedules them.
func TestWholeCalls(t *testing.T) {
	for _, c := range []struct {
		what        string
		keys        string
		least, most Value
	}{
		{"4 calls a minute", "cost: {dist: constant, mean: 1500}", 0.05, 0.3},
		{"35 calls a minute", "cost: {dist: constant, mean: 170}", 0.001, 0.03},
		{"600 calls a minute", "cost: {dist: constant, mean: 10}", 0, 0.003},
		{"streams flow", "classes: [{median: 100, max: 200}]\npool: {tpm: 6000, accounting: production}", none, none},
		{"slots do not come in calls", "service: 1s\npool: {tpm: 0, concurrency: 3}", none, none},
	} {
		if !strings.Contains(c.keys, "pool:") {
			c.keys += "\npool: {tpm: 6000}"
		}
		s := parsed(t, "duration: 6m\n"+c.keys+`
tenants:
  - {name: a, weight: 2, load: {kind: backlogged, workers: 5}}
  - {name: b, load: {kind: backlogged, workers: 5}}
`)
		f := testkit.Must(Run(t.Context(), *s, Options{Seeds: []uint64{1}}))(t).Figures
		if got := f.MisallocationWhole; got.Known() != c.least.Known() || got.Known() && (got < c.least || got > c.most) {
			t.Errorf("%s: whole calls misallocate %v, want %v to %v", c.what, got, c.least, c.most)
		}
	}
}
