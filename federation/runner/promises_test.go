package runner_test

import (
	"context"
	"crypto/rand"
	"flag"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var promiseWorlds = flag.Int("promise-worlds", 12, "how many random worlds of refusals there are")

// TestRefusals_PromiseWhatTheLimitNeeds: whatever the limits are, and whether the store is there,
// lost or just back, no refusal promises more time than the limit that refused needs by itself when
// all gateways are connected; and a refusal for want of the store promises seconds.
func TestRefusals_PromiseWhatTheLimitNeeds(t *testing.T) {
	for seed := range uint64(testkit.Rounds(*promiseWorlds/2, *promiseWorlds)) {
		testkit.Virtual(t, strconv.FormatUint(seed, 10), func(t *testing.T) {
			w := newPromiseWorld(t, seed)
			w.run()
			if t.Failed() {
				t.Errorf("%d gateways, %+v", len(w.gateways), w.cfg)
			}
		})
	}
}

// promiseWorld is gateways with random limits, and callers that ask more of them than they have.
type promiseWorld struct {
	t        *testing.T
	cfg      governor.Config
	gateways []*berth
	fresh    bool // the store knows that nothing was used; else it learns for a minute
	end      time.Time
	stop     func()

	mu      sync.Mutex
	rng     *mathrand.Rand
	refused map[string]int
}

const (
	promiseCallers = 8 // of each tenant at each gateway
	promiseMost    = 2000
	promiseLongest = 10 * time.Second
)

func newPromiseWorld(t *testing.T, seed uint64) *promiseWorld {
	w := &promiseWorld{t: t, rng: mathrand.New(mathrand.NewPCG(seed, 14)), refused: map[string]int{}}
	w.cfg = w.randomConfig()
	gateways := 1 + w.rng.IntN(3)
	shared := gateways > 1 || w.rng.IntN(2) == 0
	w.cfg.Shared = shared
	w.cfg.SharedSlots = shared
	w.cfg.SharedLimits = shared
	w.fresh = w.rng.IntN(3) > 0
	w.cfg.Pools[0].ExpectNodes = oneOf(w.rng, 0, gateways)
	store := memory.New(memory.Config{Fresh: w.fresh})
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	w.stop = func() { cancel(); group.Wait() }
	for range gateways {
		w.gateways = append(w.gateways, begin(ctx, t, &group, store, w.cfg))
	}
	time.Sleep(2 * time.Second)
	return w
}

// begin starts a gateway that shares all its limits, or none if cfg says so, until ctx ends.
func begin(ctx context.Context, t *testing.T, group *sync.WaitGroup, store *memory.Store, cfg governor.Config) *berth {
	t.Helper()
	g := testkit.Must(governor.New(cfg))(t)
	b := &berth{Governor: g, way: &wire{network: network{Store: store, delay: 5 * time.Millisecond}}}
	b.way.parts.Store(store)
	if !cfg.Shared {
		return b
	}
	pools := runner.New(runner.Config{Name: rand.Text(), Instance: rand.Text(), Store: b.way, Pools: poolsOf(g)})
	side := sharing.New(g)
	limits := runner.NewLimits(runner.LimitsConfig{
		Instance: rand.Text(), Store: b.way, More: side.More(), Sign: side.Sign, Limits: side.Limits, Calls: side.Calls,
	})
	group.Go(func() { _ = pools.Run(ctx) })
	group.Go(func() { _ = limits.Run(ctx) })
	return b
}

// oneOf picks one of the values.
func oneOf[T any](rng *mathrand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

func (w *promiseWorld) randomConfig() governor.Config {
	rng := w.rng
	budgets := func(scale int64) []governor.Budget {
		return oneOf(rng, nil, nil,
			[]governor.Budget{{Unit: governor.UnitTokens, Limit: scale * 1000, Per: oneOf(rng, budget.Hour, budget.Day)}},
			[]governor.Budget{{Unit: governor.UnitTokens, Limit: 1e9, Per: budget.Hour}},
			[]governor.Budget{{Unit: governor.UnitRequests, Limit: scale, Per: budget.Hour}, {Unit: governor.UnitTokens, Limit: scale * 1500, Per: budget.Day}})
	}
	p := governor.Pool{
		Name: "p", TPM: oneOf(rng, int64(0), 60_000, 300_000), RPM: oneOf(rng, int64(0), 0, 120), Concurrency: oneOf(rng, int64(0), 0, 6),
		Burst: 10 * time.Second, TicketWait: 10 * time.Second, MaxQueue: 1000, Budgets: budgets(400),
		OnLoss:       oneOf(rng, governor.LossClosed, governor.LossClosed, governor.LossOpen, governor.LossLocal),
		TenantLimits: oneOf(rng, governor.LimitsLeased, governor.LimitsLeased, governor.LimitsCachedDeny, governor.LimitsStrict),
	}
	if p.OnLoss == governor.LossLocal {
		p.LocalPPM = 100_000
	}
	cfg := governor.Config{Pools: []governor.Pool{p}}
	for _, name := range []string{"a", "b"} {
		cfg.Tenants = append(cfg.Tenants, governor.Tenant{
			Name: name, Weight: escrow.Weight(oneOf(rng, 1, 4)), MaxWait: oneOf(rng, 0, 0, 2*time.Second),
			TPM: oneOf(rng, int64(0), 0, 20_000), RPM: oneOf(rng, int64(0), 0, 60), Concurrency: oneOf(rng, int64(0), 0, 4),
			Budgets: budgets(100),
		})
	}
	return cfg
}

// run lets callers ask while the store is there, lost for some or all, and back.
func (w *promiseWorld) run() {
	w.end = time.Now().Add(70 * time.Second)
	var group sync.WaitGroup
	for _, b := range w.gateways {
		for _, tenant := range w.cfg.Tenants {
			for caller := range promiseCallers {
				group.Go(func() { w.caller(b, &tenant, caller) })
			}
		}
	}
	time.Sleep(w.random(20 * time.Second))
	all := w.random(2) == 0
	for i, b := range w.gateways {
		b.way.cut.Store(all || i == 0)
	}
	time.Sleep(16 * time.Second)
	for _, b := range w.gateways {
		b.way.cut.Store(false)
	}
	group.Wait()
	w.stop()
}

func (w *promiseWorld) random(n time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rng.Int64N(int64(n)))
}

// caller asks again and again. It comes back when told, but after five seconds at the latest.
func (w *promiseWorld) caller(b *berth, t *governor.Tenant, caller int) {
	for n := uint64(1); time.Now().Before(w.end); n++ {
		req := governor.Request{Tenant: t.Name, Pool: "p", Model: "m", Input: 100, Output: int64(w.random(promiseMost - 100))}
		req.Claim.Key = uint64(caller+1)<<32 | n
		for time.Now().Before(w.end) {
			lease, rej := governor.Refused(b.Acquire(context.Background(), req))
			if rej == nil {
				time.Sleep(100*time.Millisecond + w.random(promiseLongest/10))
				if w.random(20) == 0 {
					time.Sleep(w.random(promiseLongest / 2))
				}
				lease.Settle(governor.Usage{Input: 100, Output: int64(w.random(time.Duration(req.Output + 1)))})
				break
			}
			w.check(t, rej)
			time.Sleep(min(rej.RetryAfter, 5*time.Second) + w.random(20*time.Millisecond))
		}
	}
}

// check compares a promise with what the limit that refused needs at most.
func (w *promiseWorld) check(t *governor.Tenant, rej *governor.Refusal) {
	least, most := w.needs(t, rej)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[rej.Reason.String()]++
	if rej.RetryAfter < least || rej.RetryAfter > most {
		w.t.Errorf("%v before the end, %v promises %v, want %v … %v: %v", time.Until(w.end), rej.Reason, rej.RetryAfter, least, most, rej)
	}
}

// served is how much of a pool's limit is used until so much is served of a tenant, by its share: a third more,
// because a far turn is promised later by that, and twice that, because a gateway may have half of its part for a while.
func (w *promiseWorld) served(t *governor.Tenant, wants int64) int64 {
	all := escrow.Weight(0)
	for _, other := range w.cfg.Tenants {
		all += other.Weight
	}
	return 2 * (wants + wants/3) * int64(all) / int64(t.Weight)
}

// needs is the least and the most that a refusal may promise.
func (w *promiseWorld) needs(t *governor.Tenant, rej *governor.Refusal) (least, most time.Duration) {
	const second = time.Second
	callers := int64(promiseCallers * len(w.gateways))
	outstanding := map[string]int64{"requests": callers, "tokens": callers * promiseMost}
	minutes := func(wants, limit int64) time.Duration {
		return escrow.Window + time.Duration(float64(escrow.Window)*float64(wants)/float64(limit))
	}
	untilReset := time.Until(rej.Resets)
	switch {
	case rej.Reason == governor.ReasonStoreLost && !w.fresh && w.cfg.Pools[0].ExpectNodes == 0:
		return second, escrow.Window + second
	case rej.Reason == governor.ReasonStoreLost:
		return second, 2 * second
	case rej.Elsewhere:
		return second, 2 * second
	case rej.Reason == governor.ReasonBudget:
		return untilReset, untilReset
	case rej.Budget.Limit > 0:
		return time.Millisecond, untilReset
	case rej.Axis == "concurrency":
		most = second + time.Duration(2*callers)*promiseLongest/time.Duration(rej.Limit)
		if pool := w.cfg.Pools[0]; !rej.Own && pool.TPM > 0 { // it is the turn at the pool's minute if that comes later
			most = max(most, minutes(w.served(t, outstanding["tokens"]), pool.TPM)+2*second)
		}
		return time.Millisecond, most
	case rej.Own:
		return time.Millisecond, minutes(outstanding[rej.Axis], rej.Limit) + 2*second
	}
	return time.Millisecond, minutes(w.served(t, outstanding[rej.Axis]), rej.Limit) + 2*second
}

// TestRefusals_AfterARestart: gateways that were all restarted, after others have used the minute, do not take the little that they get for
// all that there will be.
func TestRefusals_AfterARestart(t *testing.T) {
	const limit = 60_000
	cfg := governor.Config{
		Shared: true,
		Pools:  []governor.Pool{{Name: "p", TPM: limit, Burst: time.Minute, MaxQueue: 1000}},
		Tenants: []governor.Tenant{
			{Name: "large", Weight: 9, MaxWait: time.Hour},
			{Name: "small", Weight: 1},
		},
	}
	for gateways := range 3 {
		testkit.Virtual(t, strconv.Itoa(gateways+1), func(t *testing.T) {
			store := memory.New(memory.Config{Fresh: true})
			begun := func() (list []*berth, stop func()) {
				ctx, cancel := context.WithCancel(context.Background())
				var group sync.WaitGroup
				for range gateways + 1 {
					list = append(list, begin(ctx, t, &group, store, cfg))
				}
				time.Sleep(2 * time.Second)
				return list, func() { cancel(); group.Wait() }
			}
			before, stop := begun()
			for range limit / 1000 {
				for _, b := range before {
					if l, rej := governor.Refused(b.Acquire(t.Context(), governor.Request{Tenant: "small", Pool: "p", Output: 1000})); rej == nil {
						l.Settle(governor.Usage{Output: 1000})
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
			stop()

			after, stop := begun()
			defer stop()
			ctx, leave := context.WithCancel(t.Context())
			var queue sync.WaitGroup
			defer queue.Wait()
			defer leave()
			for _, queued := range []int64{0, 6} { // calls of 1000 at each gateway
				for range queued {
					for _, b := range after {
						queue.Go(func() { _, _ = b.Acquire(ctx, governor.Request{Tenant: "large", Pool: "p", Output: 1000}) })
					}
				}
				for range 10 {
					time.Sleep(time.Second)
					for _, tokens := range []int64{100, 3000, limit} {
						for _, b := range after {
							l, rej := governor.Refused(b.Acquire(t.Context(), governor.Request{Tenant: "small", Pool: "p", Output: tokens}))
							if rej == nil {
								l.Settle(governor.Usage{})
								continue
							}
							wants := queued*1000 + tokens
							if most := escrow.Window + time.Duration(wants)*escrow.Window/limit + time.Second; rej.RetryAfter > most {
								t.Errorf("%d tokens behind %d are told to come back in %v, want %v at most: %v", tokens, queued*1000, rej.RetryAfter, most, rej)
							}
						}
					}
				}
			}
		})
	}
}
