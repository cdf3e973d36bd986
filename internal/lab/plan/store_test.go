package plan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// far is a store some way away that may be down, or lose all that it has.
type far struct {
	mu    sync.Mutex
	store *memory.Store
	down  bool
}

func (f *far) reach(ctx context.Context) (*memory.Store, error) {
	select {
	case <-time.After(3 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, errors.New("down")
	}
	return f.store, nil
}

func (f *far) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *far) Beat(ctx context.Context, pool string, b *federation.Beat) (r federation.Reply, err error) {
	s, err := f.reach(ctx)
	if err != nil {
		return r, err
	}
	return s.Beat(ctx, pool, b)
}

func (f *far) Look(ctx context.Context, pool string) (v federation.View, err error) {
	s, err := f.reach(ctx)
	if err != nil {
		return v, err
	}
	return s.Look(ctx, pool)
}

func (f *far) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	s, err := f.reach(ctx)
	if err != nil {
		return nil, err
	}
	return s.Share(ctx, beats)
}

func (f *far) Ask(ctx context.Context, q *parts.Ask) (a parts.Answer, err error) {
	s, err := f.reach(ctx)
	if err != nil {
		return a, err
	}
	return s.Ask(ctx, q)
}

// gateway shares its limits through a store, and writes down what it decides.
type gateway struct {
	*governor.Governor
	path string
	w    *decisions.Writer
}

func openGateway(ctx context.Context, t *testing.T, group *sync.WaitGroup, name string, store *far, cfg governor.Config) *gateway {
	g := &gateway{path: filepath.Join(t.TempDir(), name+".jsonl")}
	g.w = testkit.Must(decisions.Open(decisions.Options{Path: g.path, Node: name, MaxSize: 1 << 30, Keep: 1, Log: slog.New(slog.DiscardHandler)}))(t)
	cfg.Observer = g.w
	cfg.Recorded = true
	cfg.Shared = true
	cfg.SharedLimits = true
	cfg.SharedSlots = true
	g.Governor = testkit.Must(governor.New(cfg))(t)
	side := sharing.New(g.Governor)
	instance := fmt.Sprint(name, time.Now().UnixNano())
	pools := runner.New(runner.Config{Name: name, Instance: instance, Store: store, Pools: side.Pools})
	limits := runner.NewLimits(runner.LimitsConfig{
		Instance: instance, Store: store, More: side.More(), Sign: side.Sign, Limits: side.Limits, Calls: side.Calls,
		Former: func(string) int64 { return 7 }, // the store that an earlier process knew is gone
	})
	group.Go(func() { _ = pools.Run(ctx) })
	group.Go(func() { _ = limits.Run(ctx) })
	return g
}

// fleetConfig is a random policy of gateways that share limits.
func fleetConfig(r *rand.Rand, gateways int) governor.Config {
	v := &course{r: r}
	budgets := func(scale int64) (list []governor.Budget) {
		if v.chance(50) {
			list = append(list, governor.Budget{Unit: governor.UnitTokens, Limit: scale * 300, Per: budget.Hour})
		}
		if v.chance(30) {
			list = append(list, governor.Budget{Unit: governor.UnitRequests, Limit: scale, Per: budget.Day})
		}
		return list
	}
	for {
		p := governor.Pool{
			Name: "p", TPM: v.some(80, 60_000, 300_000), RPM: v.some(40, 200, 900), ITPM: v.some(20, 60_000), Concurrency: v.some(60, 3, 8), MaxQueue: 40, TicketWait: 5 * time.Second,
			Burst: 5 * time.Second, Budgets: budgets(900), ExpectNodes: int(v.some(50, int64(gateways))), OnLoss: governor.OnLoss(v.r.IntN(3)),
			TenantLimits: governor.LimitsMode(v.r.IntN(3)), InteractiveReserve: v.some(20, 1), SoftCapPPM: v.some(20, 500_000),
		}
		if p.OnLoss == governor.LossLocal {
			p.LocalPPM = 200_000
		}
		if p.Concurrency > 0 && v.chance(30) {
			p.Adaptive = adaptive.Law(1 + v.r.IntN(2))
			p.MinConcurrency = 1
		}
		if v.chance(30) {
			p.Upstreams = []governor.Upstream{{Name: "u", Weight: 1, TPM: 40_000}, {Name: "w", Weight: 1, Concurrency: 3}}
		}
		cfg := governor.Config{Pools: []governor.Pool{p}}
		for _, name := range []string{"a", "a/x", "b", "c", "m"} {
			t := governor.Tenant{
				Name: name, Weight: escrow.Weight(1 + v.r.IntN(3)), MaxWait: time.Duration(v.some(60, 1, 3)) * time.Second, TPM: v.some(40, 20_000), RPM: v.some(40, 90),
				Concurrency: v.some(30, 2), Budgets: budgets(90), Shadow: name == "c",
			}
			if name == "m" {
				t.Members = &governor.Members{Each: governor.Tenant{Weight: 1, RPM: v.some(60, 20), Budgets: budgets(40)}}
			}
			cfg.Tenants = append(cfg.Tenants, t)
		}
		if cfg.Validate() == nil {
			return cfg
		}
	}
}

// callers let a gateway have calls until an end. They look at its books now and then.
func callers(g *gateway, r *rand.Rand, end time.Time, group *sync.WaitGroup) {
	names := []string{"a", "a/x", "b", "c", "m/~ann", "m/~bob"}
	for i := range 8 {
		r := rand.New(rand.NewPCG(r.Uint64(), 1))
		group.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
				if n%20 == 19 {
					time.Sleep(time.Duration(r.IntN(20)) * time.Second) // so that parts rest
				}
				req := governor.Request{ID: fmt.Sprint(i, "-", n), Tenant: names[r.IntN(len(names))], Pool: "p", Input: r.Int64N(400), Output: r.Int64N(400), Background: r.IntN(6) == 0}
				ctx, gone := testkit.Leaving(context.Background(), time.Duration(r.IntN(5000))*time.Millisecond)
				l, rej := g.Acquire(ctx, req)
				gone()
				switch r.IntN(30) {
				case 0:
					g.State()
				case 1:
					g.Standing("a/x", "p")
				case 2:
					g.Refresh(context.Background(), "b")
				case 3:
					g.Explain(req)
				}
				if rej != nil {
					continue
				}
				time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
				l.Progress(req.Output / 3)
				l.Settle(governor.Usage{Input: req.Input, Output: req.Output * 3 / 4})
			}
		})
	}
}

// fleet has gateways decide calls for so long, while their store is there, is down, and has lost everything.
func fleet(t *testing.T, seed uint64, lasts time.Duration) (paths []string) {
	time.Sleep(10 * time.Minute) // so that the past is in the present hour
	r := rand.New(rand.NewPCG(seed, 61))
	n := 2 + r.IntN(2)
	cfg := fleetConfig(r, n)
	store := &far{store: memory.New(memory.Config{Fresh: r.IntN(2) == 0})}
	ctx, stop := context.WithCancel(context.Background())
	var beats, calls sync.WaitGroup
	var gateways []*gateway
	for i := range n {
		own := cfg
		if i == 0 {
			own.Past = (&course{r: r, clock: &clock{now: time.Now()}}).past()
		}
		gateways = append(gateways, openGateway(ctx, t, &beats, fmt.Sprint("n", i), store, own))
	}
	time.Sleep(2 * time.Second)
	end := time.Now().Add(lasts)
	for _, g := range gateways {
		callers(g, r, end, &calls)
	}
	time.Sleep(lasts / 3)
	store.set(func() { store.down = true })
	time.Sleep(time.Duration(r.IntN(int(lasts) / 15)))
	store.set(func() { store.down = false })
	time.Sleep(lasts / 6)
	store.set(func() { store.store = memory.New(memory.Config{}) })
	time.Sleep(lasts / 9)
	more := fleetConfig(r, n)
	more.Tenants[0].Concurrency = 3
	for _, g := range gateways {
		testkit.OK(t, g.Apply(more))
		time.Sleep(300 * time.Millisecond)
	}
	time.Sleep(lasts / 9)
	taken := openGateway(ctx, t, &beats, "n1", store, cfg) // another process takes the name
	calls.Wait()
	stop()
	beats.Wait()
	for _, g := range append(gateways, taken) {
		g.Drain()
		testkit.OK(t, g.w.Close())
		if g.w.Lost() > 0 {
			t.Fatalf("%d lines are lost", g.w.Lost())
		}
		paths = append(paths, g.path)
	}
	return paths
}

// What gateways decide that share their limits is decided again from the log of each alone, to the nanosecond. Seen to fail without any one of
// most kinds of what they are told.
func TestReplay_WithStore(t *testing.T) {
	met := map[governor.Verb]int{}
	for seed := range uint64(testkit.Rounds(3, 30)) {
		testkit.Virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			for _, path := range fleet(t, seed, 3*time.Minute) {
				run := read(t, path)
				for i := range run.changes {
					if told := run.changes[i].Told; told != nil {
						met[told.Verb]++
					}
				}
				sameAgain(t, path, run)
			}
		})
	}
	t.Log(met)
	for _, v := range governor.Verbs {
		if met[v] == 0 {
			t.Errorf("nothing is told of %q", v)
		}
	}
}

// Logs of gateways that share their limits are kept, too: see TestCorpus.
func TestCorpus_WithStore(t *testing.T) {
	const fleets = "testdata/fleets"
	if *update {
		testkit.OK(t, os.RemoveAll(fleets))
		testkit.OK(t, os.MkdirAll(fleets, 0o755))
		for seed := range uint64(2) {
			testkit.Virtual(t, fmt.Sprint(seed), func(t *testing.T) {
				for i, path := range fleet(t, seed, 30*time.Second) {
					testkit.OK(t, os.WriteFile(filepath.Join(fleets, fmt.Sprintf("%d-%d.jsonl.gz", seed, i)), packed(t, path), 0o644))
				}
			})
		}
	}
	names := testkit.Must(filepath.Glob(fleets + "/*.jsonl.gz"))(t)
	met := map[string]int{}
	for _, name := range names {
		run := unpacked(t, name, met)
		sameAgain(t, name, run)
	}
	if met[string(decisions.Told)] < 100*len(names) || len(names) < 6 {
		t.Errorf("in %d logs is %v", len(names), met)
	}
}

// Grants of what the policy has not, as a damaged log may have them, are left out.
func TestReplay_GrantsOfNothing(t *testing.T) {
	takes := []governor.ToldTake{{Link: -1}, {Link: 99}, {Axis: limits.Axis(limits.Axes), Budget: -1}, {Axis: -1, Budget: -1}, {Budget: 99}}
	shares := []governor.ToldShare{{Budget: -1}, {Budget: 99}}
	run := unpacked(t, "testdata/fleets/0-0.jsonl.gz", map[string]int{})
	changed := 0
	for i := range run.changes {
		if told := run.changes[i].Told; told != nil {
			changed += len(told.Takes)
			told.Takes = append(slices.Clone(takes), told.Takes...)
			told.Shares = append(slices.Clone(shares), told.Shares...)
		}
	}
	if changed == 0 {
		t.Error("no call is let in by a budget")
	}
	sameAgain(t, "with grants of nothing", run)
}

// Logs with their grants are exact, whatever they come to as one gateway; and they are not if a grant is missing from one, or the grants of one are.
func TestCompare_WithStore(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(r *Run)
		exact   bool
		granted bool
	}{
		"whole":           {func(*Run) {}, true, true},
		"without a grant": {func(r *Run) { r.changes = slices.DeleteFunc(r.changes, ofRates) }, false, true},
		"of before":       {func(r *Run) { r.Start.Grants = false }, false, false},
		"with a gap":      {func(r *Run) { r.Lost = 1 }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var logs []Log
			for i := range 3 {
				path := fmt.Sprintf("testdata/fleets/0-%d.jsonl.gz", i)
				logs = append(logs, Log{Path: path, Runs: []*Run{unpacked(t, path, map[string]int{})}})
			}
			tt.change(logs[1].Runs[0])
			r := testkit.Must(Compare(logs, Policy{Governor: configOf(logs[0].Runs[0].Policy)}))(t)
			if r.Exact != tt.exact || r.Granted != tt.granted || (r.AsOne > 0) != tt.granted || !r.Shared || len(r.Missing) > 0 {
				t.Errorf("it is exact: %v, with grants: %v; %d calls come out otherwise, and %d as one", r.Exact, r.Granted, r.Differ, r.AsOne)
			}
			var text strings.Builder
			testkit.OK(t, r.Write(&text))
			if says := strings.Contains(text.String(), "reproduces every decision"); says != tt.exact {
				t.Errorf("it says %s", text.String())
			}
		})
	}
}

func ofRates(c change) bool { return c.Told != nil && c.Told.Verb == "rates" }
