package simulate

import (
	"context"
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
	// Log gets every event of every seed as JSON lines, seed by seed, when all have been played.
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
	res := Result{Scenario: s, Seeds: seeds}
	own := newOutcomes(len(seeds))
	beside := make([]outcomes, 0, baselines)
	if o.Baselines && hasBaselines(&s) {
		for range baselines {
			beside = append(beside, newOutcomes(len(seeds)))
		}
	}
	progress := newProgress(o.Progress, len(seeds), s.Duration*time.Duration(1+len(beside)))
	logged := make([]*world, len(seeds)) // if there is a log

	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, seed := range seeds {
		g.Go(func() error {
			p := newPlan(&s, seed)
			w := newWorld(p, alone)
			if err := w.run(ctx, o.CheckEvery, func(at time.Duration) { progress.report(i, at) }); err != nil {
				return err
			}
			if o.Log != nil {
				logged[i] = w
			}
			a := newAudit(p, &w.trace)
			own.figures[i], own.tenants[i] = a.figures()
			if i == 0 {
				res.Charts = a.charts(own.tenants[i])
			}
			played := s.Duration
			for b, of := range beside {
				w := p.instead(Baseline(b))
				if err := w.run(ctx, 0, func(at time.Duration) { progress.report(i, played+at) }); err != nil {
					return err
				}
				of.figures[i], of.tenants[i] = newAudit(w.plan, &w.trace).figures()
				played += s.Duration
			}
			progress.report(i, played)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return Result{}, err
	}
	for _, w := range logged {
		if w == nil {
			continue
		}
		if err := writeLog(o.Log, w.plan, &w.trace); err != nil {
			return Result{}, err
		}
	}
	res.PerSeed = own.figures
	res.Figures, res.Least, res.Most = combine(own.figures)
	res.Tenants = meanTenants(own.tenants)
	for b, of := range beside {
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

func newOutcomes(seeds int) outcomes {
	return outcomes{make([]Figures, seeds), make([][]TenantFigures, seeds)}
}

// progress adds up how far each seed is.
type progress struct {
	tell func(float64)
	mu   sync.Mutex
	at   []time.Duration // guarded by mu
	all  time.Duration
}

func newProgress(tell func(float64), seeds int, each time.Duration) *progress {
	return &progress{tell: tell, at: make([]time.Duration, seeds), all: each * time.Duration(seeds)}
}

func (p *progress) report(seed int, at time.Duration) {
	if p.tell == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[seed] = at
	sum := time.Duration(0)
	for _, x := range p.at {
		sum += x
	}
	p.tell(float64(sum) / float64(p.all))
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
