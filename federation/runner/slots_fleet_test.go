package runner_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// wire is a gateway's way to the store, by which both of its runners go.
type wire struct {
	network
	parts atomic.Pointer[memory.Store]
	beats atomic.Int64 // for slots
}

func (n *wire) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	if n.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(n.delay)
	n.beats.Add(int64(len(beats)))
	r, err := n.parts.Load().Share(ctx, beats)
	time.Sleep(n.delay)
	if n.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r, err
}

func (n *wire) Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error) {
	return n.parts.Load().Ask(ctx, q)
}

// berth is a gateway whose pool's calls at once are split over all.
type berth struct {
	*governor.Governor
	way  *wire
	stop func() // ends it in order

	running int // guarded by the fleet's mu
}

// fleet is gateways in front of one provider, which counts what runs at once.
type fleet struct {
	t     *testing.T
	store *memory.Store // of pools,
	parts *memory.Store // and of calls at once

	mu      sync.Mutex
	rng     *mathrand.Rand
	berths  []*berth
	running int
	runs    map[string]int // by tenant
	over    string         // when first more ran than limit
	limit   int            // that holds now
	sight
}

// sight is what has been seen since reset.
type sight struct {
	most    int                      // calls at once
	had     map[string]time.Duration // of slots, by tenant
	peak    map[string]int           // calls at once, by tenant
	busy    time.Duration            // of all slots
	waited  time.Duration            // longest
	refused map[governor.Reason]int
}

func newFleet(t *testing.T, limit int) *fleet {
	store := memory.New(memory.Config{Fresh: true})
	return &fleet{
		t: t, store: store, parts: store, limit: limit, rng: mathrand.New(mathrand.NewPCG(5, 5)), runs: map[string]int{},
		sight: sight{had: map[string]time.Duration{}, peak: map[string]int{}, refused: map[governor.Reason]int{}},
	}
}

// withFleet runs a test in virtual time, with gateways that share so many slots. In the end, when its
// calls have, it looks that there were never too many at once.
func withFleet(t *testing.T, limit, gateways int, edit func(*governor.Pool), run func(t *testing.T, f *fleet, list []*berth, calls *sync.WaitGroup)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, limit)
		var calls sync.WaitGroup
		run(t, f, f.joinAll(gateways, edit), &calls)
		calls.Wait()
		f.safe()
	})
}

func (f *fleet) config(edit func(*governor.Pool)) governor.Config {
	p := governor.Pool{Name: "p", Concurrency: int64(f.limit), MaxQueue: 1000}
	if edit != nil {
		edit(&p)
	}
	return governor.Config{
		Shared: true, SharedSlots: true, Pools: []governor.Pool{p},
		Tenants: []governor.Tenant{
			{Name: "a", Weight: 3, MaxWait: 20 * time.Second},
			{Name: "b", Weight: 1, MaxWait: 20 * time.Second},
			{Name: "c", Weight: 1, MaxWait: 20 * time.Second},
			{Name: "now", Weight: 1},
		},
	}
}

// join begins a gateway.
func (f *fleet) join(cfg governor.Config) *berth {
	f.t.Helper()
	g := testkit.Must(governor.New(cfg))(f.t)
	b := &berth{Governor: g, way: &wire{network: network{Store: f.store, delay: 5 * time.Millisecond}}}
	b.way.parts.Store(f.parts)
	ctx, end := context.WithCancel(context.Background())
	var group sync.WaitGroup
	pools := runner.New(runner.Config{Name: rand.Text(), Instance: rand.Text(), Store: b.way, Pools: poolsOf(g)})
	side := sharing.New(g)
	limits := runner.NewLimits(runner.LimitsConfig{
		Instance: rand.Text(), Store: b.way, More: side.More(), Sign: side.Sign, Limits: side.Limits,
	})
	group.Go(func() { _ = pools.Run(ctx) })
	group.Go(func() { _ = limits.Run(ctx) })
	b.stop = func() { end(); group.Wait() }
	f.t.Cleanup(b.stop)
	f.berths = append(f.berths, b)
	time.Sleep(100 * time.Millisecond)
	return b
}

func (f *fleet) joinAll(n int, edit func(*governor.Pool)) []*berth {
	for range n {
		f.join(f.config(edit))
	}
	time.Sleep(6 * time.Second) // in which a new store learns who has what
	var group sync.WaitGroup
	for _, b := range f.berths { // how long calls run is learned while nobody waits
		for _, tenant := range []string{"a", "b", "c"} {
			f.flood(&group, b, tenant, 1, 20*time.Second, time.Second)
		}
	}
	group.Wait()
	f.reset()
	return f.berths
}

// call is one call, which runs so long.
func (f *fleet) call(b *berth, tenant string, background bool, run time.Duration) *governor.Refusal {
	lease, rej := governor.Refused(b.Acquire(context.Background(), governor.Request{Tenant: tenant, Pool: "p", Model: "m", Input: 10, Output: 10, Background: background}))
	f.mu.Lock()
	if rej != nil {
		f.refused[rej.Reason]++
		f.mu.Unlock()
		return rej
	}
	f.waited = max(f.waited, lease.Waited)
	f.running++
	b.running++
	f.runs[tenant]++
	f.most = max(f.most, f.running)
	f.peak[tenant] = max(f.peak[tenant], f.runs[tenant])
	if f.running > f.limit && f.over == "" {
		f.over = fmt.Sprintf("%d run at once, of %d", f.running, f.limit)
	}
	f.mu.Unlock()
	began := time.Now()
	time.Sleep(run)
	f.mu.Lock()
	f.running--
	b.running--
	f.runs[tenant]--
	f.had[tenant] += time.Since(began)
	f.busy += time.Since(began)
	f.mu.Unlock()
	lease.Settle(governor.Usage{Input: 10, Output: 10})
	return nil
}

func (f *fleet) random(n time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.rng.Int64N(int64(n)))
}

// flood has so many callers of a tenant ask at a gateway again and again, for calls of about
// so long.
func (f *fleet) flood(group *sync.WaitGroup, b *berth, tenant string, callers int, d, run time.Duration) {
	end := time.Now().Add(d)
	for range callers {
		group.Go(func() {
			time.Sleep(f.random(run))
			for time.Now().Before(end) {
				if rej := f.call(b, tenant, false, run/2+f.random(run)); rej != nil {
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
	}
}

// floodAll floods each of some gateways.
func (f *fleet) floodAll(group *sync.WaitGroup, list []*berth, tenant string, callers int, d, run time.Duration) {
	for _, b := range list {
		f.flood(group, b, tenant, callers, d, run)
	}
}

// background has callers at a gateway that each run one background call of tenant b after the other for a duration. Each call runs for
// least, and up to a second more.
func (f *fleet) background(group *sync.WaitGroup, b *berth, callers int, d, least time.Duration) {
	end := time.Now().Add(d)
	for range callers {
		group.Go(func() {
			for time.Now().Before(end) {
				f.call(b, "b", true, least+f.random(time.Second))
			}
		})
	}
}

// repeat is a caller of tenant a whose calls all run exactly so long.
func (f *fleet) repeat(b *berth, end time.Time, run time.Duration) {
	time.Sleep(f.random(run))
	for time.Now().Before(end) {
		if rej := f.call(b, "a", false, run); rej != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// reset forgets what was had.
func (f *fleet) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.had = map[string]time.Duration{}
	f.peak = map[string]int{}
	f.busy = 0
	f.most = 0
	f.waited = 0
}

// watch has what is seen begin when calls have settled, and go on for a while.
func (f *fleet) watch(settles, lasts time.Duration) {
	time.Sleep(settles)
	f.reset()
	time.Sleep(lasts)
}

// seen is a copy of what was.
func (f *fleet) seen() sight {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sight
	s.had = maps.Clone(s.had)
	s.peak = maps.Clone(s.peak)
	s.refused = maps.Clone(s.refused)
	return s
}

// at is how many calls run at a gateway.
func (f *fleet) at(b *berth) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return b.running
}

// limitTo says which limit holds from now on.
func (f *fleet) limitTo(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = n
}

// safe fails the test if ever more ran than the limit.
func (f *fleet) safe() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over != "" {
		f.t.Error(f.over)
	}
}
