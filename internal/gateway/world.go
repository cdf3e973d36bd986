package gateway

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/history"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/upstreams"
	"github.com/llmgov/llmgov/tenants"
)

// world is everything that a request needs to know, resolved from one snapshot. It is immutable,
// and each request loads it once.
type world struct {
	snap      *tenants.Snapshot
	pools     []*poolSide
	accounts  [][]*telemetry.Account // by tenant and pool
	estimates []*estimates           // by tenant
	shared    *estimates             // what all tenants' calls have taught, for new tenants
	outputs   *outputs               // what calls have taught of answers that nothing bounds
	shares    func() [][]int64       // tokens a minute under contention, by tenant and pool; computed once
}

// estimates convert what a tenant sends and receives into tokens.
type estimates struct {
	prompts *tokens.Estimator // the weight of a body → input tokens
	deltas  *tokens.Estimator // deltas of a stream → output tokens
}

// poolSide is a pool as the gateway sees it.
type poolSide struct {
	*tenants.Pool
	upstreams []*upstream
	set       *upstreams.Set // the same, as what is chosen from
	metrics   *telemetry.Pool
	inputMax  int64 // a prompt above this alone is more than the pool's minute; 0 = no limit
	speed     *speed
	failures  *history.Minute
}

// speed is a moving average of output tokens a second, over whole calls. It serves to charge calls
// that broke off and left nothing to count.
type speed struct{ milli atomic.Int64 }

func (s *speed) observe(tokens int64, d time.Duration) {
	if tokens <= 0 || d < time.Millisecond {
		return
	}
	sample := tokens * int64(time.Second) / int64(d) * 1000
	old := s.milli.Load()
	if old == 0 {
		old = sample
	}
	s.milli.Store(old + (sample-old)/16) // a lost race loses a sample
}

// produced guesses how much a call has produced in d; at most the bound.
func (s *speed) produced(d time.Duration, bound int64) int64 {
	milli := s.milli.Load()
	if milli == 0 {
		return bound
	}
	return min(bound, int64(d.Seconds()*float64(milli)/1000)+1)
}

// newWorld resolves a snapshot. What calls have taught in the world before is kept, by the names of
// tenants and pools; before is nil for the first world.
func newWorld(snap *tenants.Snapshot, m *telemetry.Metrics, before *world) (*world, error) {
	byName, err := newUpstreams(snap.Config().Upstreams)
	if err != nil {
		return nil, err
	}
	shelves := before.shelves()
	for _, u := range byName {
		u.shelf = shelves[u.identity()]
		if u.shelf == nil {
			u.shelf = &shelf{}
		}
	}
	w := &world{snap: snap, shares: sync.OnceValue(func() [][]int64 { return sharesOf(snap) })}
	speeds, learned := before.learned()
	w.shared = learned[""]
	if w.shared == nil {
		w.shared = &estimates{tokens.NewEstimator(nil), tokens.NewEstimator(nil)}
	}
	if before != nil {
		w.outputs = before.outputs
	} else {
		w.outputs = newOutputs()
	}
	pools := snap.Pools()
	list := snap.Tenants()
	for i := range pools {
		p := &pools[i]
		side := &poolSide{Pool: p, metrics: m.Pool(p.Name), speed: speeds[p.Name], failures: before.failuresOf(p.Name)}
		side.upstreams, side.set = newSet(p, byName, before.setOf(p.Name))
		if side.speed == nil {
			side.speed = &speed{}
		}
		if p.TPM > 0 && p.TokenWeights.Input > 0 {
			side.inputMax = p.TPM * 1000 / p.TokenWeights.Input
		}
		w.pools = append(w.pools, side)
	}
	for i := range list {
		t := &list[i]
		e := learned[t.Name]
		if e == nil {
			e = &estimates{tokens.NewEstimator(w.shared.prompts), tokens.NewEstimator(w.shared.deltas)}
		}
		w.estimates = append(w.estimates, e)
		row := make([]*telemetry.Account, len(pools))
		for _, j := range snap.PoolsOf(t) {
			row[j] = m.Account(t.Name, t.Tier, pools[j].Name)
		}
		w.accounts = append(w.accounts, row)
	}
	return w, nil
}

// learned is what calls have taught: the speeds of pools, and the estimates of tenants. Those under
// the name "" are what all calls have taught.
func (w *world) learned() (map[string]*speed, map[string]*estimates) {
	if w == nil {
		return nil, nil
	}
	speeds := map[string]*speed{}
	learned := map[string]*estimates{"": w.shared}
	for _, p := range w.pools {
		speeds[p.Name] = p.speed
	}
	for i, t := range w.snap.Tenants() {
		learned[t.Name] = w.estimates[i]
	}
	return speeds, learned
}

// setOf is the set of a pool's upstreams, with what is believed about them; or nil.
func (w *world) setOf(pool string) *upstreams.Set {
	if w != nil {
		if p, ok := w.poolNamed(pool); ok {
			return p.set
		}
	}
	return nil
}

// failuresOf counts the failed calls of a pool.
func (w *world) failuresOf(pool string) *history.Minute {
	if w != nil {
		if p, ok := w.poolNamed(pool); ok {
			return p.failures
		}
	}
	return &history.Minute{}
}

func (w *world) poolNamed(name string) (*poolSide, bool) {
	i := slices.IndexFunc(w.pools, func(p *poolSide) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return w.pools[i], true
}

// retain drops the metrics of tenants and pools that the world does not have.
func (w *world) retain(m *telemetry.Metrics) {
	pools := []string{}
	reaches := map[string][]string{}
	for _, p := range w.pools {
		pools = append(pools, p.Name)
	}
	for i, t := range w.snap.Tenants() {
		reaches[t.Name] = nil
		for j, account := range w.accounts[i] {
			if account != nil {
				reaches[t.Name] = append(reaches[t.Name], pools[j])
			}
		}
	}
	m.Retain(pools, reaches)
}
