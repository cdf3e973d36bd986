package runner_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// rough is a store some of whose answers come late, or never, but not for so long that
// anybody counts alone.
type rough struct {
	store *memory.Store
	mu    sync.Mutex
	rng   *rand.Rand
	lost  map[string]bool // the last one, by who asked
	lasts int             // claims on parts that last
}

func (r *rough) Share(ctx context.Context, beats []*parts.Beat) (replies []parts.Reply, err error) {
	err = r.way(beats, func() (err error) {
		replies, err = r.store.Share(ctx, beats)
		return err
	})
	return replies, err
}

func (r *rough) Ask(ctx context.Context, q *parts.Ask) (answer parts.Answer, err error) {
	err = r.way(q.Beats, func() (err error) {
		answer, err = r.store.Ask(ctx, q)
		return err
	})
	return answer, err
}

// way is the one there and back.
func (r *rough) way(beats []*parts.Beat, tell func() error) error {
	r.mu.Lock()
	there := time.Duration(r.rng.Int64N(30)) * time.Millisecond
	back := time.Duration(r.rng.Int64N(30)) * time.Millisecond
	lost := r.rng.IntN(12) == 0
	for _, b := range beats {
		lost = lost && !r.lost[b.Instance+b.Owner]
	}
	for _, b := range beats {
		r.lost[b.Instance+b.Owner] = lost
		for i := range b.Claims {
			r.lasts += int(min(b.Claims[i].Lasts, 1))
		}
	}
	reached := r.rng.IntN(2) == 0
	r.mu.Unlock()
	time.Sleep(there)
	if lost && !reached {
		return errors.New("not reached")
	}
	err := tell()
	time.Sleep(back)
	if lost {
		return errors.New("no answer")
	}
	return err
}

// booked is what calls of one tenant had of a limit, and when.
type booked struct {
	began, ended time.Time
	tokens       int64
	tenant       string
}

// TestLimits_Chaos: whatever is reloaded or lost, and whoever ends and starts, a tenant and its
// teams stay within limits of each kind, and no call waits longer than it may.
func TestLimits_Chaos(t *testing.T) {
	for name, modes := range map[string][]governor.LimitsMode{
		"leased": {governor.LimitsLeased}, "strict": {governor.LimitsStrict}, "cached_deny": {governor.LimitsCachedDeny},
		"changing": {governor.LimitsLeased, governor.LimitsStrict, governor.LimitsCachedDeny},
		"calm":     {governor.LimitsLeased},
	} {
		t.Run(name, func(t *testing.T) {
			if len(modes) == 1 && name != "calm" {
				testkit.Long(t, "simulates minutes of each mode")
			}
			for seed := range uint64(testkit.Rounds(1, 4)) {
				synctest.Test(t, func(t *testing.T) { chaos(t, seed, modes, name == "calm") })
			}
		})
	}
}

const (
	maxWait = time.Second
	askWait = 50 * time.Millisecond // beyond that, for the last answer
)

func chaosTenants(round int) []governor.Tenant {
	all := []governor.Tenant{
		{
			Name: "a", Weight: 1, RPM: 90, Concurrency: 9, MaxWait: maxWait,
			Budgets: []governor.Budget{{Unit: governor.UnitTokens, Limit: 20_000, Per: budget.Hour}},
			InPool:  map[string]governor.Limits{"p": {TPM: 9000}},
		},
		{Name: "a/x", Weight: 1, RPM: 60, MaxWait: maxWait},
		{Name: "a/y", Weight: 1, Concurrency: 5, MaxWait: maxWait, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 150, Per: budget.Hour}}},
	}
	if round%3 == 1 { // what nobody looks at comes and goes
		all[0].TPM = 5000
		all[1].Concurrency = 3
	}
	if round%4 == 3 {
		all = all[:2]
	}
	return all
}

// disorder is gateways that come and go, and what they let in.
type disorder struct {
	t     *testing.T
	seed  uint64
	store *rough
	end   time.Time
	modes []governor.LimitsMode
	calm  bool // calls are few for most of the time

	mu      sync.Mutex
	rng     *rand.Rand
	all     []booked
	refused map[governor.Reason]int
}

// random is a random number below n.
func (d *disorder) random(n int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Int64N(n)
}

func (d *disorder) config(round int) governor.Config {
	return governor.Config{
		SharedLimits: true,
		Pools:        []governor.Pool{{Name: "p", Concurrency: 10_000, MaxQueue: 1000, TenantLimits: d.modes[round%len(d.modes)]}},
		Tenants:      chaosTenants(round),
	}
}

// ask is one call.
func (d *disorder) ask(o *office) {
	tenant := []string{"a", "a/x", "a/y"}[d.random(3)]
	tokens := 1 + d.random(600)
	lease, rej := governor.Refused(o.Acquire(context.Background(), governor.Request{Tenant: tenant, Pool: "p", Input: tokens}))
	if rej != nil {
		d.waited(rej.Waited, tenant)
		d.mu.Lock()
		d.refused[rej.Reason]++
		d.mu.Unlock()
		return
	}
	d.waited(lease.Waited, tenant)
	began := time.Now()
	time.Sleep(time.Duration(d.random(1500)) * time.Millisecond)
	lease.Settle(governor.Usage{Input: tokens})
	d.mu.Lock()
	d.all = append(d.all, booked{began, time.Now(), tokens, tenant})
	d.mu.Unlock()
}

func (d *disorder) waited(so time.Duration, tenant string) {
	if so > maxWait+askWait {
		d.t.Errorf("seed %d: %s waited %v", d.seed, tenant, so)
	}
}

// live has a gateway serve callers, and be reloaded all the while, until it ends.
func (d *disorder) live() {
	o := launch(d.t, d.config(0), runner.LimitsConfig{Store: d.store})
	until := time.Now().Add(time.Duration(20+d.random(100)) * time.Second)
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			for time.Now().Before(until) {
				pause := time.Duration(d.random(400)) * time.Millisecond
				if d.calm && time.Now().Unix()/10%4 > 0 {
					pause *= 100
				}
				time.Sleep(pause)
				d.ask(o)
			}
		})
	}
	for round := 1; time.Now().Before(until); round++ {
		time.Sleep(7 * time.Second)
		if err := o.Governor.Apply(d.config(round)); err != nil {
			d.t.Error(err)
		}
	}
	callers.Wait()
	o.stop()
}

// check looks whether more than a limit was used in any so long; 0 is at once.
func (d *disorder) check(what string, limit int64, window time.Duration, of func(b booked) int64) {
	most := int64(0)
	for _, x := range d.all {
		n := int64(0)
		for _, y := range d.all {
			if ago := x.began.Sub(y.began); ago >= 0 && (ago < window || window == 0 && y.ended.After(x.began)) {
				n += of(y)
			}
		}
		most = max(most, n)
	}
	if d.t.Logf("%s: %d of %d", what, most, limit); most > limit {
		d.t.Errorf("seed %d: %s: %d of %d", d.seed, what, most, limit)
	}
}

func chaos(t *testing.T, seed uint64, modes []governor.LimitsMode, calm bool) {
	time.Sleep(57 * time.Minute) // in three minutes another period begins
	d := &disorder{
		t: t, seed: seed, modes: modes, calm: calm, end: time.Now().Add(6 * time.Minute), rng: rand.New(rand.NewPCG(seed, 3)), refused: map[governor.Reason]int{},
		store: &rough{store: memory.New(memory.Config{}), rng: rand.New(rand.NewPCG(seed, 4)), lost: map[string]bool{}},
	}
	testkit.AtOnce(3, func(_ int) {
		for time.Now().Before(d.end) {
			d.live()
		}
	})
	tokens := func(b booked) int64 { return b.tokens }
	of := func(names ...string) func(b booked) int64 {
		return func(b booked) int64 { return map[bool]int64{true: 1}[slices.Contains(names, b.tenant)] }
	}
	d.check("requests", 90, time.Minute, of("a", "a/x", "a/y"))
	d.check("tokens", 9000, time.Minute, tokens)
	d.check("calls", 9, 0, of("a", "a/x", "a/y"))
	d.check("requests of x", 60, time.Minute, of("a/x"))
	d.check("calls of y", 5, 0, of("a/y"))
	spent := map[time.Time]int64{}
	for _, b := range d.all {
		spent[b.began.Truncate(time.Hour)] += b.tokens
	}
	for hour, n := range spent {
		if n > 20_000+599 { // the last one goes with what is left
			t.Errorf("seed %d: %d of a budget of 20,000 for %v", seed, n, hour)
		}
	}
	if calm && d.store.lasts < 100 {
		t.Errorf("seed %d: %d claims were on parts that last", seed, d.store.lasts)
	}
	t.Logf("%d calls, refused %v, spent %v, lasting %d", len(d.all), d.refused, spent, d.store.lasts)
}
