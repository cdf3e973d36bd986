package simulate

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// nodesOf are n nodes, each 10 ms further from the store than the one before.
func nodesOf(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("n%d: %dms", i+1, 10*(i+1))
	}
	return "nodes: {" + strings.Join(list, ", ") + "}"
}

func play(t *testing.T, text string) Result {
	t.Helper()
	res := testkit.Must(Run(context.Background(), *parsed(t, text), Options{Seeds: []uint64{1}, CheckEvery: 20_000}))(t)
	for _, v := range res.Figures.Fullest {
		if v.Known() && v > 1 {
			t.Errorf("a limit is exceeded: %.4f of it was used", v)
		}
	}
	return res
}

// Teams of one tenant at different nodes share what is the tenant's by their weights, as
// if they were at one.
func TestNodes_TeamsApart(t *testing.T) {
	testkit.Long(t, "simulates minutes of many gateways")
	t.Parallel()
	const top = `
duration: 6m
pool: {tpm: 6000000}
nodes: {us-east: 1ms, eu-west: 35ms}
tenants:
`
	for name, tree := range map[string]string{
		"all take what they get": `
  - name: org
    weight: 1
    teams:
      - {name: x, weight: 3, nodes: [us-east], load: {kind: backlogged, workers: 300}}
      - {name: y, weight: 1, nodes: [eu-west], load: {kind: backlogged, workers: 300}}
  - {name: p, weight: 2, nodes: [us-east], load: {kind: backlogged, workers: 300}}
  - {name: q, weight: 1, load: {kind: backlogged, workers: 300}}
`,
		"one team leaves some": `
  - name: org
    teams:
      - {name: x, weight: 3, nodes: [us-east], load: {kind: open, tokens_per_second: 70000}}
      - {name: y, weight: 1, nodes: [eu-west], load: {kind: open, tokens_per_second: 70000}}
      - {name: z, weight: 4, nodes: {us-east: 0.3, eu-west: 0.7}, load: {kind: open, tokens_per_second: 10000}}
  - {name: p, nodes: [eu-west], load: {kind: open, tokens_per_second: 100000}}
`,
	} {
		res := play(t, top+tree)
		if f := res.Figures; f.Utilization < 0.985 || f.MisallocationOfUsed > 0.01 {
			t.Errorf("%s: %.4f of the limit was used, %.4f of it by others than it should", name, f.Utilization, f.MisallocationOfUsed)
		}
		for _, x := range res.Tenants {
			if off := float64(x.Received/x.Entitled) - 1; math.Abs(off) > 0.06 {
				t.Errorf("%s: %s got %.4f of the limit, and should %.4f", name, x.Name, x.Received, x.Entitled)
			}
		}
	}
}

// Tokens and requests are both short, and each tenant gets the same of what it uses most.
func TestNodes_TwoAxes(t *testing.T) {
	testkit.Long(t, "simulates minutes of many gateways")
	t.Parallel()
	f := play(t, nodesOf(4)+`
duration: 6m
pool: {tpm: 6000000, rpm: 6000}
tenants:
  - {name: small, cost: {dist: constant, mean: 200}, load: {kind: backlogged, workers: 400}}
  - {name: mid, cost: {dist: constant, mean: 1000}, nodes: {n1: 0.7, n3: 0.3}, load: {kind: backlogged, workers: 400}}
  - {name: large, cost: {dist: constant, mean: 4000}, nodes: [n3, n4], load: {kind: backlogged, workers: 400}}
`).Figures
	if f.DominantRatio < 0.98 || f.Used[escrow.Requests] < 0.98 {
		t.Errorf("dominant shares differ by %.4f, and %.4f of the requests were used", f.DominantRatio, f.Used[escrow.Requests])
	}
}

// Lengths are learned, and counted in each of the ways: several nodes use nearly what one
// does, and share it as well. What is given back, and what is planned, is known to the store
// only with the next beat, and that is what they use less.
func TestNodes_Accountings(t *testing.T) {
	testkit.Long(t, "simulates minutes of many gateways")
	t.Parallel()
	for accounting, least := range map[string]Value{"admit_max": 0.9, "production": 0.96, "settle": 0.98} {
		run := func(nodes string) Figures {
			return play(t, nodes+`
duration: 5m
warmup: 2m
pool: {tpm: 6000000, accounting: `+accounting+`}
estimates: learned
classes:
  - {share: 0.5, median: 180, sigma: 0.9, max: 4000, tokens_per_second: 80, first_token: 300ms..700ms, input: {mean: 500}}
  - {share: 0.5, median: 450, sigma: 1.0, max: 8000, tokens_per_second: 50, first_token: 300ms..700ms, input: {mean: 500}}
tenants:
  - {name: a, weight: 4, load: {kind: open, tokens_per_second: 80000}}
  - {name: b, weight: 2, load: {kind: open, tokens_per_second: 10000}}
  - {name: c, weight: 2, load: {kind: open, tokens_per_second: 80000}}
  - {name: d, weight: 1, load: {kind: open, tokens_per_second: 80000}}
`).Figures
		}
		one := run("")
		four := run(nodesOf(4))
		t.Logf("%s: %.4f of the limit through one, %.4f through four; to others %.4f and %.4f", accounting, one.Utilization, four.Utilization, one.MisallocationOfUsed, four.MisallocationOfUsed)
		if four.Utilization < one.Utilization*least {
			t.Errorf("%s: %.4f of the limit was used through four nodes, %.4f through one", accounting, four.Utilization, one.Utilization)
		}
		if four.MisallocationOfUsed > max(0.01, one.MisallocationOfUsed) {
			t.Errorf("%s: %.4f of what was used went to others than it should through four nodes, %.4f through one", accounting, four.MisallocationOfUsed, one.MisallocationOfUsed)
		}
	}
}

// worldOf plays a scenario, and leaves what happened.
func worldOf(t *testing.T, text string) *world {
	t.Helper()
	w := newWorld(newPlan(parsed(t, text), 1), alone)
	testkit.OK(t, w.run(context.Background(), 1000, func(time.Duration) {}))
	return w
}

// With a process goes what it had: who waited there never runs, what ran has ended, and
// workers come to another.
func TestNodes_CrashTakesAllWithIt(t *testing.T) {
	t.Parallel()
	const crash, back = 100 * time.Second, 160 * time.Second
	w := worldOf(t, `
duration: 4m
nodes: {stays: 1ms, dies: 20ms}
service: 2s
patience: 30s
tenants:
  - {name: open, load: {kind: open, tokens_per_second: 9000}}
  - {name: workers, nodes: [dies], load: {kind: backlogged, workers: 20}}
events:
  - {at: 100s, crash: dies, for: 60s}
`)
	type life struct{ admitted, ended time.Duration }
	lives := make([]life, len(w.trace.Requests))
	for _, e := range w.trace.Events {
		switch e.Kind {
		case Admitted:
			lives[e.Request].admitted = e.At
		case Settled:
			if lives[e.Request].ended > 0 {
				t.Fatalf("request %d ended twice", e.Request)
			}
			lives[e.Request].ended = e.At
		}
	}
	cut := 0
	lost := 0
	moved := 0
	for id, r := range w.trace.Requests {
		l := lives[id]
		dies := w.Nodes[r.Node].Name == "dies"
		switch {
		case dies && r.At >= crash && r.At < back:
			t.Fatalf("request %d came to a process that was not there, at %v", id, r.At)
		case dies && r.At < crash && l.admitted > crash:
			t.Fatalf("request %d waited in a process that had gone, and ran at %v", id, l.admitted)
		case dies && r.At < crash && l.ended > crash:
			t.Fatalf("request %d ran on in a process that had gone, until %v", id, l.ended)
		case dies && l.ended == crash:
			cut++
		case dies && r.At < crash && l.admitted == 0:
			lost++
		case !dies && r.Worker && r.At >= crash:
			moved++
		}
	}
	if cut == 0 || lost == 0 || moved < 20 {
		t.Errorf("%d calls were cut off, %d lost in the queue, and workers came elsewhere %d times", cut, lost, moved)
	}
}

// Requests come by the parts of their tenant, which wander where they rotate.
func TestNodes_PartsOfRequests(t *testing.T) {
	testkit.Long(t, "simulates minutes of many gateways")
	t.Parallel()
	w := worldOf(t, `
duration: 4m
nodes: {a: 1ms, b: 1ms}
tenants:
  - {name: still, nodes: {a: 0.2, b: 0.8}, load: {kind: open, requests_per_second: 50}}
  - {name: turns, rotate: {period: 60s, swing: 0.9}, load: {kind: open, requests_per_second: 50}}
`)
	var at [2][4][2]float64 // tenant, quarter of the minute, node
	for _, r := range w.trace.Requests {
		at[r.Tenant][int(r.At.Seconds()/15)%4][r.Node]++
	}
	for quarter := range 4 {
		near := func(tenant int, want float64) {
			n := at[tenant][quarter]
			if got := n[0] / (n[0] + n[1]); math.Abs(got-want) > 0.05 {
				t.Errorf("tenant %d, quarter %d: %.3f of its requests came to the first node, want %.3f", tenant, quarter, got, want)
			}
		}
		near(0, 0.2)
		// The mean over a quarter of a turn of (1 + 0.9 cos)/2.
		near(1, 0.5+0.9/math.Pi*[]float64{1, -1, -1, 1}[quarter])
	}
}

// A node that is cut off collects no callers: it refuses them, also those that wait, and they go to another
// node. Before, all 64 workers of a tenant waited there until it was back, and others had their share.
func TestNodes_CutOffCollectsNoCallers(t *testing.T) {
	t.Parallel()
	const begins, lasts = 60 * time.Second, 60 * time.Second
	w := worldOf(t, `
duration: 3m
warmup: 60s
nodes: {a: 1ms, b: 1ms, c: 1ms}
pool: {tpm: 6000000}
service: 200ms
patience: 40s
tenants:
  - {name: workers, load: {kind: backlogged, workers: 64}}
  - {name: open, load: {kind: open, tokens_per_second: 60000}}
events:
  - {at: 60s, partition: b, for: 60s}
`)
	for _, e := range w.trace.Events {
		r := &w.trace.Requests[e.Request]
		if e.Kind == Admitted && e.At > begins+5*time.Second && e.At < begins+lasts && w.Nodes[r.Node].Name == "b" {
			t.Fatalf("request %d ran at the node that was cut off, at %v", e.Request, e.At)
		}
	}
	f, _ := newAudit(w.plan, &w.trace).figures()
	if f.MisallocationMax > 0.03 || f.Fullest[escrow.Tokens] > 1 {
		t.Errorf("in the worst minute %.4f went to others than it should; %.4f of the limit was used", f.MisallocationMax, f.Fullest[escrow.Tokens])
	}
}
