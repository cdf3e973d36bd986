package simulate

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// Options of Run. The zero value runs the scenario's own seeds.
type Options struct {
	// Seeds to run, instead of the scenario's.
	Seeds []uint64
	// Progress is called now and then with how much is done, 0 to 1, from one
	// goroutine at a time.
	Progress func(done float64)
	// Log gets every event of every seed as JSON lines, seed by seed, once a seed and those before it have been played.
	Log io.Writer
	// CheckEvery, when positive, looks at the pool's own books after every so many
	// steps, and fails the run when they are wrong. They are always looked at
	// at the end.
	CheckEvery int
	// Baselines has each of them played as well, in a pool of one process with a limit that stands.
	Baselines bool
}

// Result is the outcome of Run.
type Result struct {
	Scenario scenario.Scenario
	Seeds    []uint64
	// Figures are over all seeds: the mean, or the largest if the figure is a maximum.
	// Least and Most are the extremes over seeds; PerSeed is by seed.
	Figures, Least, Most Figures
	PerSeed              []Figures
	// Tenants are means over seeds.
	Tenants []TenantFigures
	// Baselines are those of the same callers with each Baseline; none if these were not played.
	Baselines []BaselineFigures
	// Charts are of the first seed.
	Charts Charts
}

// Run plays a scenario once for every seed, as many at a time as there are
// processors. The same scenario and seeds give the same result and the same log.
func Run(ctx context.Context, s scenario.Scenario, o Options) (Result, error) {
	seeds := o.Seeds
	if len(seeds) == 0 {
		seeds = s.Seeds
	}
	if err := policyOf(&s).Validate(); err != nil {
		return Result{}, fmt.Errorf("simulate: scenario %s: %w", s.Name, err)
	}
	runs := 1
	if o.Baselines && hasBaselines(&s) {
		runs += baselines
	}
	all := make([]outcomes, runs) // of llmgov, and then of each baseline
	for b := range all {
		all[b] = outcomes{make([]Figures, len(seeds)), make([][]TenantFigures, len(seeds))}
	}
	res := Result{Scenario: s, Seeds: seeds}
	passed := progressOf(o.Progress, s.Duration*time.Duration(runs*len(seeds)))
	logs := seedLogs{out: o.Log, played: make([]*world, len(seeds))}

	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, seed := range seeds {
		g.Go(func() error {
			p := newPlan(&s, seed)
			var logged *world // if there is a log
			for b, of := range all {
				var w *world
				if b == 0 {
					w = newWorld(p, alone)
				} else {
					w = p.instead(Baseline(b - 1))
				}
				last := time.Duration(0)
				err := w.run(ctx, o.CheckEvery, func(at time.Duration) {
					passed(at - last)
					last = at
				})
				if err != nil {
					return err
				}
				passed(s.Duration - last)
				audit := newAudit(w.plan, &w.trace)
				of.figures[i], of.tenants[i] = audit.figures()
				if b == 0 && i == 0 {
					res.Charts = audit.charts(of.tenants[i])
				}
				if b == 0 && o.Log != nil {
					logged = w
				}
			}
			return logs.write(i, logged)
		})
	}
	if err := g.Wait(); err != nil {
		return Result{}, err
	}
	res.PerSeed = all[0].figures
	res.Figures, res.Least, res.Most = combine(all[0].figures)
	res.Tenants = meanTenants(all[0].tenants)
	for b, of := range all[1:] {
		one, _, _ := combine(of.figures)
		res.Baselines = append(res.Baselines, BaselineFigures{Baseline(b).Key(), one, meanTenants(of.tenants)})
	}
	return res, nil
}

// outcomes are figures by seed.
type outcomes struct {
	figures []Figures
	tenants [][]TenantFigures
}

// seedLogs write the logs of seeds in their order.
type seedLogs struct {
	out    io.Writer
	mu     sync.Mutex
	played []*world // guarded by mu, as all below: by seed, those that wait for one before them
	next   int
	err    error
}

// write takes in that a seed has been played; nil is that its log is not wanted.
func (l *seedLogs) write(seed int, w *world) error {
	if w == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.played[seed] = w
	for ; l.err == nil && l.next < len(l.played) && l.played[l.next] != nil; l.next++ {
		w := l.played[l.next]
		l.played[l.next] = nil
		l.err = writeLog(l.out, w.plan, &w.trace)
	}
	return l.err
}

// progressOf tells how much is done of so much time, from one goroutine at a time.
func progressOf(tell func(float64), all time.Duration) (passed func(time.Duration)) {
	var mu sync.Mutex
	sum := time.Duration(0)
	return func(more time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		sum += more
		if tell != nil {
			tell(float64(sum) / float64(all))
		}
	}
}

// meanTenants averages each leaf's figures over seeds.
func meanTenants(seeds [][]TenantFigures) []TenantFigures {
	out := append([]TenantFigures(nil), seeds[0]...)
	for i := range out {
		for _, of := range []func(*TenantFigures) *Value{
			func(t *TenantFigures) *Value { return &t.Entitled },
			func(t *TenantFigures) *Value { return &t.Received },
			func(t *TenantFigures) *Value { return &t.WaitP50 },
			func(t *TenantFigures) *Value { return &t.WaitP99 },
			func(t *TenantFigures) *Value { return &t.Refused },
			func(t *TenantFigures) *Value { return &t.Admitted },
		} {
			sum := Value(0)
			n := 0
			for _, s := range seeds {
				if v := *of(&s[i]); v.Known() {
					sum = sum + v
					n = n + 1
				}
			}
			*of(&out[i]) = none
			if n > 0 {
				*of(&out[i]) = sum / Value(n)
			}
		}
	}
	return out
}
