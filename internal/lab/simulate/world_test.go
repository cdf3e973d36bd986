package simulate

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// firstCome is an admission without fairness or pace: whoever comes first gets
// what is left of the rolling minute. The figures must show it for what it is.
type firstCome struct {
	limit  int64
	used   rolling
	queue  []firstCall
	nodes  int32
	serial uint32
}

type firstCall struct {
	h    escrow.Handle
	cost int64
}

func (g *firstCome) Add(escrow.NodeID, escrow.Node) escrow.NodeID {
	g.nodes++
	return escrow.NodeID(g.nodes)
}

func (g *firstCome) Offer(_ time.Time, c escrow.Call) (escrow.Handle, escrow.Answer) {
	g.serial++
	h := escrow.Handle{Slot: g.serial}
	g.queue = append(g.queue, firstCall{h, c.Most[escrow.Tokens]})
	return h, escrow.Answer{Verdict: escrow.Queued, Patience: c.MaxWait}
}

func (g *firstCome) Pump(now time.Time, out []escrow.Handle) []escrow.Handle {
	at := now.Sub(epoch)
	g.used.leave(at)
	for len(g.queue) > 0 && g.used.sum+g.queue[0].cost <= g.limit {
		g.used.add(at, int32(g.queue[0].h.Slot), g.queue[0].cost)
		out = append(out, g.queue[0].h)
		g.queue = g.queue[1:]
	}
	return out
}

func (g *firstCome) Next() (time.Time, bool) {
	if len(g.queue) == 0 || g.used.oldest == len(g.used.entries) {
		return time.Time{}, false
	}
	return epoch.Add(g.used.entries[g.used.oldest].at + escrow.Window), true
}

func (g *firstCome) Cancel(_ time.Time, h escrow.Handle) bool {
	for i := range g.queue {
		if g.queue[i].h == h {
			g.queue = append(g.queue[:i], g.queue[i+1:]...)
			return true
		}
	}
	return false
}

func (g *firstCome) Refuse(now time.Time, h escrow.Handle, _ uint64) (escrow.Answer, bool) {
	return escrow.Answer{}, g.Cancel(now, h)
}
func (g *firstCome) Progress(time.Time, escrow.Handle, escrow.Progress)      {}
func (g *firstCome) Settle(_ time.Time, _ escrow.Handle, _ escrow.Cost) bool { return true }
func (g *firstCome) Check() error                                            { return nil }

func run(t *testing.T, name string, o Options) Result {
	t.Helper()
	s := testkit.Must(scenario.Find(name))(t)
	return testkit.Must(Run(context.Background(), s, o))(t)
}

func TestFiguresTellFirstComeFromFair(t *testing.T) {
	one := Options{Seeds: []uint64{1}}
	unfair := one
	unfair.gate = func(p scenario.Pool) gate { return &firstCome{limit: p.TPM} }
	for name, least := range map[string]Value{"s2": 0.1, "s3": 0.15, "s4": 0.3} {
		fair := run(t, name, one).Figures
		bad := run(t, name, unfair).Figures
		if bad.Misallocation < least || bad.Misallocation < 8*fair.Misallocation {
			t.Errorf("%s: first come first served misallocates %v, the pool %v", name, bad.Misallocation, fair.Misallocation)
		}
		if bad.Fullest[escrow.Tokens] > 1 || bad.Utilization < 0.99 {
			t.Errorf("%s: first come first served keeps the limit and uses it: %v, %v", name, bad.Fullest[escrow.Tokens], bad.Utilization)
		}
	}
	if bad := run(t, "s3b", unfair).Figures; bad.FirstAdmission < 5 {
		t.Errorf("s3b: who returns to first come first served waits %v", bad.FirstAdmission)
	}
}

// The same seed makes the same log, however many run beside it.
func TestSameSeedSameLog(t *testing.T) {
	for _, name := range []string{"s4-deny", "reservation", "d3"} {
		s := testkit.Must(scenario.Find(name))(t)
		s.Duration = time.Duration(testkit.Rounds(30, 120)) * time.Second
		s.Warmup = s.Duration / 2
		log := func(seeds ...uint64) string {
			var b bytes.Buffer
			testkit.Must(Run(context.Background(), s, Options{Seeds: seeds, Log: &b}))(t)
			return b.String()
		}
		three := log(3)
		one := log(1)
		two := log(2)
		if all := log(1, 2, 3); all != one+two+three {
			t.Errorf("%s: the log of three seeds is not that of each in turn", name)
		}
		if one == strings.ReplaceAll(two, `"seed":2`, `"seed":1`) {
			t.Errorf("%s: seeds 1 and 2 make the same run", name)
		}
	}
}

// What is decided for one tenant changes nothing of what open tenants ask for.
func TestArrivalsDoNotDependOnDecisions(t *testing.T) {
	s := testkit.Must(scenario.Find("s2"))(t)
	arrivals := func(g gate) []Request {
		w := newWorld(newPlan(&s, 1), func(scenario.Pool) gate { return g })
		testkit.OK(t, w.run(context.Background(), 0, func(time.Duration) {}))
		var list []Request
		for _, r := range w.trace.Requests {
			if !r.Worker {
				list = append(list, r)
			}
		}
		return list
	}
	fair := arrivals(alone(s.Pool))
	unfair := arrivals(&firstCome{limit: s.Pool.TPM})
	if len(fair) != len(unfair) {
		t.Fatalf("%d requests under one admission, %d under another", len(fair), len(unfair))
	}
	for i := range fair {
		if fair[i] != unfair[i] {
			t.Fatalf("request %d is %+v under one admission, %+v under another", i, fair[i], unfair[i])
		}
	}
}

// What counts against the limit, and when, is as the provider counts it.
func TestUseFollowsTheAccounting(t *testing.T) {
	for accounting, want := range map[string]struct {
		first string // of the first use: what of the request it is
		atEnd bool   // it comes with the end
		back  bool   // some is given back
	}{
		"admit_max":  {first: "most", back: true},
		"production": {first: "input"},
		"settle":     {first: "all", atEnd: true},
	} {
		s := parsed(t, `
duration: 3m
pool: {accounting: `+accounting+`}
classes: [{median: 300, max: 2000, tokens_per_second: 50, input: {mean: 100}}]
estimates: learned
tenants: [{name: a, load: {kind: open, requests_per_second: 1}}]
`)
		w := newWorld(newPlan(s, 1), alone)
		testkit.OK(t, w.run(context.Background(), 1, func(time.Duration) {}))
		var booked, used, ended int64
		seen := map[int32]bool{}
		settled := map[int32]time.Duration{}
		sums := map[int32]int64{}
		back := false
		for _, e := range w.trace.Events {
			r := &w.trace.Requests[e.Request]
			switch e.Kind {
			case Admitted:
				booked = e.Tokens
			case Settled:
				settled[e.Request] = e.At
				ended++
			case Used:
				sums[e.Request] += e.Tokens
				back = back || e.Tokens < 0
				if seen[e.Request] {
					continue
				}
				seen[e.Request] = true
				used++
				wanted := map[string]int64{"most": booked, "input": r.Input, "all": r.Tokens}[want.first]
				if _, over := settled[e.Request]; e.Tokens != wanted || over != want.atEnd {
					t.Fatalf("%s: the first use of %+v is %d, at its end %v; want %s, %v", accounting, *r, e.Tokens, over, want.first, want.atEnd)
				}
			}
		}
		if used < 100 || ended < 100 || back != want.back {
			t.Errorf("%s: %d used, %d ended, given back: %v", accounting, used, ended, back)
		}
		for id := range settled {
			if sums[id] != w.trace.Requests[id].Tokens {
				t.Errorf("%s: %d tokens were counted of %+v", accounting, sums[id], w.trace.Requests[id])
			}
		}
	}
}

func TestRunIsCancelled(t *testing.T) {
	s := testkit.Must(scenario.Find("s5"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, s, Options{Progress: func(done float64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestProgressGoesFromNothingToAll(t *testing.T) {
	last := 0.0
	run(t, "s2", Options{Seeds: []uint64{1, 2, 3}, Progress: func(done float64) {
		if done < last || done > 1 {
			t.Errorf("%g is done after %g", done, last)
		}
		last = done
	}})
	if last != 1 {
		t.Errorf("%g is done at the end", last)
	}
}

func TestAgendaIsInOrder(t *testing.T) {
	var a agenda
	for i := range 500 {
		a.plan(task{at: time.Duration(i * 7919 % 83), leaf: int32(i)})
	}
	var last task
	for n := range 500 {
		next, ok := a.next()
		// At the same time, they come as they were planned.
		if !ok || n > 0 && (next.at < last.at || next.at == last.at && next.leaf < last.leaf) {
			t.Fatalf("task %d: %v, %v after %v", n, next, ok, last)
		}
		last = next
	}
	if _, ok := a.next(); ok {
		t.Error("more tasks than were planned")
	}
}
