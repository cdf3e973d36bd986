package simulate

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

func run(t *testing.T, name string, o Options) Result {
	t.Helper()
	s := testkit.Must(scenario.Find(name))(t)
	return testkit.Must(Run(context.Background(), s, o))(t)
}

// TestBaselines: each keeps the provider's limit. Without a governor it is used, and goes to whoever comes first; a part of it is
// never exceeded; and a bucket lets a tenant that was away take more than its part at first.
func TestBaselines(t *testing.T) {
	for name, least := range map[string]Value{"s2": 0.1, "s3": 0.15, "s3b": 0.15, "s4": 0.3} {
		res := run(t, name, Options{Seeds: []uint64{1}, Baselines: true})
		first := res.Baselines[NoGovernor].Figures
		if first.Misallocation < least || first.Misallocation < 8*res.Figures.Misallocation || first.Utilization < 0.99 {
			t.Errorf("%s: first come first served misallocates %v, the pool %v; it uses %v", name, first.Misallocation, res.Figures.Misallocation, first.Utilization)
		}
		for _, b := range res.Baselines {
			if b.Figures.Fullest[escrow.Tokens] > 1 {
				t.Errorf("%s: %s exceed the limit: %v", name, b.Name, b.Figures.Fullest[escrow.Tokens])
			}
		}
		weights := Value(0)
		for _, x := range res.Tenants {
			weights += Value(x.Weight)
		}
		for i, x := range res.Baselines[FixedParts].Tenants {
			if part := Value(x.Weight) / weights; x.Received > part {
				t.Errorf("%s: %s received %v of a part of %v", name, x.Name, x.Received, part)
			}
			if more := res.Baselines[TokenBuckets].Tenants[i].Received; x.Name == "late" && more < x.Received+0.015 {
				t.Errorf("%s: who was away received %v from a bucket, %v of a part", name, more, x.Received)
			}
		}
		if name == "s3b" && first.FirstAdmission < 5 {
			t.Errorf("s3b: who returns to first come first served waits %v", first.FirstAdmission)
		}
	}
	for _, b := range run(t, "testdata/morning.yaml", Options{Baselines: true}).Baselines {
		if f := b.Figures; f.WaitP99 < 0.3 || f.WaitP99 > 1.5 || f.GivenUp > f.Refused {
			t.Errorf("%s: callers that are refused do not come back twice within 1.5 s: the longest waits are %v, and %v of %v refused give up", b.Name, f.WaitP99, f.GivenUp, f.Refused)
		}
	}
}

// The same seed makes the same log, however many run beside it.
func TestSameSeedSameLog(t *testing.T) {
	for _, name := range []string{"s4-deny", "reservation", "d3", "a2"} {
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

// A run that is cancelled has written the logs of the seeds that have been played.
func TestLogOfCancelledRun(t *testing.T) {
	s := testkit.Must(scenario.Find("s4-deny"))(t)
	s.Duration = 10 * time.Second
	s.Warmup = s.Duration / 2
	ctx, cancel := context.WithCancel(t.Context())
	var log, first bytes.Buffer
	seeds := make([]uint64, 20*runtime.GOMAXPROCS(0)) // so that not all are played when the first is
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	testkit.Must(Run(ctx, s, Options{Seeds: seeds[:1], Log: &first}))(t)
	_, err := Run(ctx, s, Options{Seeds: seeds, Log: writerFunc(func(b []byte) (int, error) {
		cancel()
		return log.Write(b)
	})})
	if !errors.Is(err, context.Canceled) || !bytes.HasPrefix(log.Bytes(), first.Bytes()) || first.Len() == 0 {
		t.Errorf("%v, after %d bytes, of which those of the first seed are %d", err, log.Len(), first.Len())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// What is decided for one tenant changes nothing of what open tenants ask for, or of calls from a file.
func TestArrivalsDoNotDependOnDecisions(t *testing.T) {
	for _, name := range []string{"s2", "testdata/morning.yaml"} {
		s := testkit.Must(scenario.Find(name))(t)
		p := newPlan(&s, 1)
		arrivals := func(w *world) (list []Request) {
			testkit.OK(t, w.run(context.Background(), 0, func(time.Duration) {}))
			for _, r := range w.trace.Requests {
				if !r.Worker {
					list = append(list, r)
				}
			}
			return list
		}
		fair := arrivals(newWorld(p, alone))
		for b := range Baseline(baselines) {
			if d := cmp.Diff(fair, arrivals(p.instead(b))); d != "" {
				t.Fatalf("%s: requests differ under %s (-llmgov +it):\n%s", name, b.Title(), d)
			}
		}
		for i, x := range s.Tenants {
			of := slices.DeleteFunc(slices.Clone(fair), func(r Request) bool { return r.Tenant != int32(i) })
			for k, c := range x.Load.Calls {
				if want := (Request{Tenant: int32(i), At: c.At, Tokens: c.Input + c.Output, Input: c.Input}); len(of) != len(x.Load.Calls) || of[k] != want {
					t.Fatalf("%s: call %d of %d of %s is asked for as %+v, want %+v", name, k, len(of), x.Name, of[k], want)
				}
			}
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
