package plan

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// The tests below were seen to fail with timers that go off at the time of the machine,
// with woken calls that run when there is a core, and with reads of the books that are
// ahead of what is due.

func busyConfig(accounting escrow.Accounting) governor.Config {
	return governor.Config{
		Pools: []governor.Pool{
			{Name: "p", TPM: 600_000, Concurrency: 12, InteractiveReserve: 2, MaxQueue: 30, Accounting: accounting, Burst: time.Second, TicketWait: 5 * time.Second},
			{Name: "q", TPM: 300_000, RPM: 3000, MaxQueue: 20, Accounting: accounting, TicketWait: time.Second, Budgets: []governor.Budget{{Unit: governor.UnitTokens, Limit: 200_000, Per: budget.Hour}}},
		},
		Tenants: []governor.Tenant{
			{Name: "a", Weight: 4, MaxWait: 2 * time.Second, TPM: 400_000},
			{Name: "a/x", Weight: 3, MaxWait: 3 * time.Second, RPM: 600},
			{Name: "a/y", Weight: 1, Background: true, MaxWait: time.Second},
			{Name: "b", Weight: 2, RPM: 900, Concurrency: 4, MaxWait: time.Second, Floor: 10_000},
			{Name: "c", Weight: 1, Shadow: true, RPM: 60, InPool: map[string]governor.Limits{"p": {Concurrency: 1}}},
			{Name: "d", Weight: 1, Group: "g", GroupWeight: 1, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 50, Per: budget.Day}}},
		},
	}
}

// storm lets many goroutines ask at once for so long: streams, calls that break off,
// callers that go, and what else there is; a reload and a pause of an upstream too.
func storm(g *governor.Governor, cfg governor.Config, lasts time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), lasts)
	defer stop()
	var wg sync.WaitGroup
	names := []string{"a", "a/x", "a/y", "b", "c", "d"}
	for i := range 48 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for n := 0; ctx.Err() == nil; n++ {
				req := governor.Request{
					ID: fmt.Sprint(i, "-", n), Tenant: names[r.IntN(len(names))], Pool: []string{"p", "q"}[r.IntN(2)], Model: fmt.Sprint("m", r.IntN(2)),
					Input: r.Int64N(300), Output: r.Int64N(300), Stream: r.IntN(2) == 0, Background: r.IntN(4) == 0, Forced: r.IntN(50) == 0,
					Claim: escrow.Claim{Key: r.Uint64N(50)},
				}
				one, gone := testkit.Leaving(ctx, time.Duration(r.IntN(400))*time.Millisecond)
				l, rej := g.Acquire(one, req)
				gone()
				if rej != nil {
					time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
					continue
				}
				for produced := int64(0); r.IntN(4) > 0; {
					time.Sleep(time.Duration(r.IntN(8)) * time.Millisecond)
					produced += r.Int64N(40)
					l.Progress(produced)
				}
				u := governor.Usage{Input: req.Input, CachedInput: req.Input / 3, Output: r.Int64N(250)}
				switch r.IntN(6) {
				case 0:
					l.Break(u)
				case 1:
					l.Release()
				default:
					l.Settle(u)
				}
			}
		})
	}
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ { // who looks changes nothing
			g.State()
			g.Saved()
			g.Standing("a", "p")
			g.Explain(governor.Request{Tenant: "b", Pool: "q"})
			time.Sleep(3 * time.Millisecond)
		}
	})
	time.Sleep(lasts / 3)
	g.Throttle("p", []governor.Cut{{Part: governor.Whole, Until: time.Now().Add(lasts / 10)}, {Part: governor.Whole / 2, TPM: 1000, Until: time.Now().Add(lasts / 5)}})
	time.Sleep(lasts / 3)
	cfg.Tenants = cfg.Tenants[:5] // d is gone
	cfg.Pools[0].TPM /= 2
	if err := g.Apply(cfg); err != nil {
		panic(err)
	}
	wg.Wait()
	g.Drain()
}

func read(t *testing.T, path string) *Run {
	t.Helper()
	log, err := ReadLog(path, decisions.Read(decisions.Files(path)))
	runs := log.Runs
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	if runs[0].Lost > 0 || runs[0].Late {
		t.Fatalf("%d lines are lost", runs[0].Lost)
	}
	return runs[0]
}

// recorded has traffic decided by a governor that writes it down, and all of it decided
// again by what was written.
func recorded(t *testing.T, cfg governor.Config, traffic func(*governor.Governor)) (run *Run, outcomes map[Outcome]int) {
	t.Helper()
	return recordedIn(t, filepath.Join(t.TempDir(), "decisions.jsonl"), cfg, traffic)
}

func recordedIn(t *testing.T, path string, cfg governor.Config, traffic func(*governor.Governor)) (run *Run, outcomes map[Outcome]int) {
	t.Helper()
	w := testkit.Must(decisions.Open(decisions.Options{Path: path, MaxSize: 1 << 20, Keep: 99, Log: slog.New(slog.DiscardHandler)}))(t)
	cfg.Recorded = true
	cfg.Observer = w
	g := testkit.Must(governor.New(cfg))(t)
	traffic(g)
	testkit.OK(t, w.Close())
	run = read(t, path)
	results := testkit.Must(run.Replay(run.OwnPolicy()))(t)
	outcomes = map[Outcome]int{}
	differ := 0
	for i, c := range run.Calls {
		outcomes[c.Decided.Outcome]++
		if !c.Decided.Same(&results[i].Decision) {
			differ++
			if differ < 4 {
				t.Errorf("call %d of %s at %d: %+v %+v, now %+v %+v", c.Number, c.Request.Tenant, c.At, c.Decided, c.Decided.Why, results[i].Decision, results[i].Why)
			}
		}
	}
	t.Logf("%v, %d differ", outcomes, differ)
	return run, outcomes
}

// What was decided among real goroutines, on a real clock, is decided again to the
// nanosecond.
func TestReplay_DecidesTheSame(t *testing.T) {
	for _, accounting := range []escrow.Accounting{escrow.AdmitMax, escrow.Production, escrow.Settled} {
		t.Run(fmt.Sprint(accounting), func(t *testing.T) {
			t.Parallel()
			decide := func(t *testing.T) {
				cfg := busyConfig(accounting)
				for i := range 150 { // so many that who looks lets others in
					cfg.Tenants = append(cfg.Tenants, governor.Tenant{Name: fmt.Sprint("idle", i), Weight: 1})
				}
				run, outcomes := recorded(t, cfg, func(g *governor.Governor) { storm(g, busyConfig(accounting), 2*time.Second) })
				// A busy machine gets less done in two seconds.
				if outcomes[Admitted] < 20 || outcomes[Refused] < 5 || outcomes[Left] < 5 || outcomes[Open] > 0 {
					t.Errorf("it was no storm: %v", outcomes)
				}
				waited := 0
				for _, c := range run.Calls {
					if c.Decided.Outcome == Admitted && c.Decided.Waited > 0 {
						waited++
					}
				}
				if waited < 5 {
					t.Errorf("only %d calls waited and went", waited)
				}
			}
			if testing.Short() {
				synctest.Test(t, decide)
			} else {
				decide(t)
			}
		})
	}
}

// So is what was decided over many minutes, with pauses in which all that counts fades,
// and somebody who looks at the books now and then; and what began with a past.
func TestReplay_OverManyMinutes(t *testing.T) {
	for _, accounting := range []escrow.Accounting{escrow.AdmitMax, escrow.Production, escrow.Settled} {
		for seed := range uint64(testkit.Rounds(1, 3)) {
			testkit.Virtual(t, fmt.Sprint(accounting, seed), func(t *testing.T) {
				cfg := busyConfig(accounting)
				cfg.Past = record.NewPast(time.Now(), time.UTC)
				for n := range uint64(20) {
					r := record.Record{
						Kind: record.Admitted, Call: n + 1, Tenant: "d", Pool: "q", Held: time.Now(), Began: time.Now(),
						Booked: record.Charge{Pool: escrow.Cost{20_000, 1}, Own: [4]int64{1, 20_000}, Spend: terms.Spend{5000, 1}},
					}
					cfg.Past.Read(r)
					cfg.Past.Uses.Read(&r)
				}
				run, outcomes := recorded(t, cfg, func(g *governor.Governor) { minutes(g, seed) })
				if outcomes[Admitted] < 300 || outcomes[Refused] < 100 {
					t.Errorf("it was little: %v", outcomes)
				}
				if run.Start.Past == nil || len(run.Start.Past.Ended) != 20 {
					t.Errorf("its past is %+v", run.Start.Past)
				}
			})
		}
	}
}

// A log whose beginning was rotated away is decided again but for its first minutes, and
// comes out nearly as it was: who waited when the log begins decides some later turns, 4 to 9 in a hundred
// with any of eight seeds.
func TestReplay_WithoutTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "decisions.jsonl")
		w := testkit.Must(decisions.Open(decisions.Options{Path: path, MaxSize: 100 << 10, Keep: 2, Log: slog.New(slog.DiscardHandler)}))(t)
		cfg := busyConfig(escrow.AdmitMax)
		// of which more is lost than a minute
		cfg.Pools[1].Budgets = nil
		cfg.Tenants[5].Budgets = nil
		plain := cfg
		cfg.Recorded = true
		cfg.Observer = w
		g := testkit.Must(governor.New(cfg))(t)
		minutes(g, 1)
		testkit.OK(t, w.Close())
		log, err := ReadLog(path, decisions.Read(decisions.Files(path)))
		runs := log.Runs
		if err != nil || len(runs) != 1 || !runs[0].Late {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		report := testkit.Must(Compare([]Log{log}, Policy{Governor: plain}))(t)
		_ = report.Write(t.Output())
		if again := report.Calls - report.Taken; report.Exact || report.Taken < 10 || again < 100 || report.Differ > again/10 || len(report.Flips) > 0 {
			t.Errorf("of %d calls %d are taken as they were, and %d come out otherwise; by the same policy %d flip",
				report.Calls, report.Taken, report.Differ, len(report.Flips))
		}
	})
}

// minutes are bursts of calls with pauses in between, and looks at the books.
func minutes(g *governor.Governor, seed uint64) {
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		r := rand.New(rand.NewPCG(seed, 9))
		for ctx.Err() == nil {
			time.Sleep(time.Duration(r.Int64N(int64(time.Second) << r.IntN(7))))
			g.State()
			g.Standing("b", "p")
			g.Explain(governor.Request{Tenant: []string{"a/x", "b", "d"}[r.IntN(3)], Pool: []string{"p", "q"}[r.IntN(2)], Input: 100})
		}
	}()
	names := []string{"a", "a/x", "a/y", "b", "c", "d"}
	r := rand.New(rand.NewPCG(seed, 8))
	for range 8 {
		for i := range 150 {
			req := governor.Request{
				ID: fmt.Sprint(i), Tenant: names[r.IntN(len(names))], Pool: []string{"p", "q"}[r.IntN(2)], Model: "m",
				Input: r.Int64N(6000), Output: r.Int64N(6000), Background: r.IntN(4) == 0, Claim: escrow.Claim{Key: r.Uint64N(20)},
			}
			runs := time.Duration(r.Int64N(int64(15 * time.Second)))
			took := r.Int64N(3000)
			wg.Go(func() {
				l, rej := g.Acquire(ctx, req)
				if rej != nil {
					return
				}
				time.Sleep(runs / 2)
				l.Progress(took / 2)
				time.Sleep(runs / 2)
				l.Settle(governor.Usage{Input: req.Input, Output: took})
			})
			time.Sleep(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
		}
		time.Sleep(time.Duration(r.Int64N(int64(4 * time.Minute))))
	}
	wg.Wait()
	stop()
	g.Drain()
	time.Sleep(time.Minute) // who looks has gone
}

// Of upstreams without limits the log does not say which one served a call, but it says what the call cost. By the same prices it costs
// the same again, and by other prices as much more as the dearest upstream does.
func TestCompare_CostsOfUnnamedUpstreams(t *testing.T) {
	rich := slots(9)
	rich.Tenants[0].Budgets = []governor.Budget{{Unit: governor.UnitMicroUSD, Limit: 15_000, Per: budget.Day}}
	lines := []decisions.Line{started("a", 0, rich)}
	for i := range uint64(5) { // at 2,000 each, where the dearest takes 10,000
		at := time.Duration(i+1) * time.Second
		cost := int64(2_000)
		ask := line(at, decisions.Asked, i+1)
		ask.Ask.Model = "m"
		ask.Ask.Output = 1
		ask.Ask.Price = &governor.Price{Output: 10_000_000}
		end := line(at+time.Millisecond, decisions.Ended, i+1)
		end.Usage.Output = 1_000
		end.MicroUSD = &cost
		lines = append(lines, ask, line(at, decisions.Admitted, i+1), end)
	}
	for factor, want := range map[int64]int{1: 0, 2: 1} {
		candidate := candidateOf(rich)
		candidate.Ask = func(r *governor.Request) *decisions.Why {
			r.Price = &governor.Price{Output: r.Price.Output * factor}
			return nil
		}
		candidate.Price = func(*governor.Request, string) *governor.Price { return &governor.Price{Output: 10_000_000 * factor} }
		r := testkit.Must(Compare([]Log{logOf(t, "a", lines)}, candidate))(t)
		if r.NowRefused != want || r.Differ > 0 {
			t.Errorf("at %d times the prices %d of %d calls are refused, want %d", factor, r.NowRefused, r.Calls, want)
		}
	}
}

// A call that still runs when the log ends has done something until then, which is decided by again: it went on to another
// upstream, and produced fewer tokens than were expected of it.
func TestReplay_CallsThatRunOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := governor.Config{
			Pools: []governor.Pool{{
				Name: "p", TPM: 60_000, Accounting: escrow.Production,
				Upstreams: []governor.Upstream{{Name: "a", Weight: 1, Concurrency: 1}, {Name: "b", Weight: 1, Order: 1, Concurrency: 5}},
			}},
			Tenants: []governor.Tenant{{Name: "t", Weight: 1}},
		}
		_, outcomes := recorded(t, cfg, func(g *governor.Governor) {
			time.Sleep(time.Minute)
			req := governor.Request{Tenant: "t", Pool: "p", Model: "m", Output: 100}
			runsOn, rej := governor.Refused(g.Acquire(t.Context(), req))
			if rej != nil {
				t.Fatal(rej)
			}
			time.Sleep(time.Second)
			runsOn.Progress(10)
			runsOn.Move([]string{"b"}, governor.Usage{Output: 10}, true)
			time.Sleep(time.Second)
			req.Via = 0b01
			l, rej := governor.Refused(g.Acquire(t.Context(), req))
			if rej != nil {
				t.Fatal(rej)
			}
			l.Settle(governor.Usage{Output: 10})
			time.Sleep(time.Second)
		})
		if outcomes[Admitted] != 2 {
			t.Errorf("%v, want two calls that went", outcomes)
		}
	})
}

// A governor that knows that nothing was used before begins with a whole burst, and so does its replay. Seen to fail where the log does not say so.
func TestReplay_Fresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := governor.Config{
			Fresh:   true,
			Pools:   []governor.Pool{{Name: "p", TPM: 60_000, Burst: time.Minute, MaxQueue: 9}},
			Tenants: []governor.Tenant{{Name: "a", Weight: 1}},
		}
		_, outcomes := recorded(t, cfg, func(g *governor.Governor) {
			for range 9 {
				if l, rej := g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Input: 5_000}); rej == nil {
					l.Settle(governor.Usage{Input: 5_000})
				}
			}
		})
		if outcomes[Admitted] != 9 {
			t.Errorf("of a whole minute are %v", outcomes)
		}
	})
}
