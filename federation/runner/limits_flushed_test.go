package runner_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// tide counts the calls that run at once, at any gateway.
type tide struct {
	mu        sync.Mutex
	now, most int
	fullAt    time.Time // when as many ran as may, for the first time since reset
	full      int
}

func (t *tide) move(by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now += by
	t.most = max(t.most, t.now)
	if t.now >= t.full && t.fullAt.IsZero() {
		t.fullAt = time.Now()
	}
}

func (t *tide) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fullAt = time.Time{}
}

// TestLimits_Flushed: a store that loses all data while three gateways run costs a tenant's slots three seconds, and never
// lets more calls run than may.
func TestLimits_Flushed(t *testing.T) {
	for name, mode := range map[string]governor.LimitsMode{
		"leased": governor.LimitsLeased, "strict": governor.LimitsStrict, "cached_deny": governor.LimitsCachedDeny,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(testkit.Rounds(1, 4)) {
				synctest.Test(t, func(t *testing.T) { flushed(t, mode, seed) })
			}
		})
	}
}

func flushed(t *testing.T, mode governor.LimitsMode, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	store := &shares{away: 2 * time.Millisecond}
	store.store.Store(memory.New(memory.Config{Fresh: true}))
	seen := &tide{full: 6}
	end := time.Now().Add(time.Minute)
	var callers sync.WaitGroup
	for range 3 {
		o := openWith(t, store, governor.Config{
			SharedLimits: true,
			Pools:        []governor.Pool{{Name: "p", Concurrency: 10_000, MaxQueue: 1000, TenantLimits: mode}},
			Tenants:      []governor.Tenant{{Name: "a", Weight: 1, Concurrency: 6, MaxWait: 2 * time.Second}},
		})
		for range 6 {
			pause := rand.New(rand.NewPCG(seed, rng.Uint64()))
			callers.Go(func() {
				for time.Now().Before(end) {
					lease, rej := governor.Refused(o.Acquire(context.Background(), governor.Request{Tenant: "a", Pool: "p", Input: 1}))
					if rej != nil {
						time.Sleep(min(max(rej.RetryAfter, 50*time.Millisecond), 500*time.Millisecond))
						continue
					}
					seen.move(1)
					time.Sleep(350*time.Millisecond + time.Duration(pause.IntN(100))*time.Millisecond)
					seen.move(-1)
					lease.Settle(governor.Usage{Input: 1})
				}
			})
		}
	}
	var longest time.Duration
	for time.Until(end) > 15*time.Second {
		time.Sleep(8*time.Second + time.Duration(rng.IntN(2000))*time.Millisecond)
		store.store.Store(memory.New(memory.Config{Fresh: true}))
		at := time.Now()
		time.Sleep(500 * time.Millisecond) // what ran before the loss has ended
		seen.reset()
		time.Sleep(6 * time.Second)
		seen.mu.Lock()
		if seen.fullAt.IsZero() {
			t.Errorf("seed %d: all slots are not in use 6.5 s after a loss", seed)
		} else {
			longest = max(longest, seen.fullAt.Sub(at))
		}
		seen.mu.Unlock()
	}
	callers.Wait()
	if t.Logf("seed %d: at most %d of 6; all are in use %v after a loss at the latest", seed, seen.most, longest); seen.most > 6 {
		t.Errorf("seed %d: %d ran at once, of 6", seed, seen.most)
	}
}

// TestLimits_FlushedIdle: a gateway that has just rested, or sees a tenant for the first time, gets nothing of a new account before those have
// told that know of the one that was lost.
func TestLimits_FlushedIdle(t *testing.T) {
	for name, mode := range map[string]governor.LimitsMode{"leased": governor.LimitsLeased, "strict": governor.LimitsStrict} {
		testkit.Virtual(t, name, func(t *testing.T) { flushedIdle(t, mode) })
	}
}

func flushedIdle(t *testing.T, mode governor.LimitsMode) {
	store := &shares{away: 2 * time.Millisecond}
	store.store.Store(memory.New(memory.Config{Fresh: true}))
	join := func() *office {
		return openWith(t, store, governor.Config{
			SharedLimits: true,
			Pools:        []governor.Pool{{Name: "p", Concurrency: 10_000, MaxQueue: 1000, TenantLimits: mode}},
			Tenants: []governor.Tenant{
				{Name: "a", Weight: 1, Concurrency: 6, MaxWait: 200 * time.Millisecond},
				{Name: "b", Weight: 1, Concurrency: 6, MaxWait: 200 * time.Millisecond},
				{Name: "c", Weight: 1, Concurrency: 6, MaxWait: 200 * time.Millisecond},
			},
		})
	}
	begin := func(o *office, tenant string, most int) (leases []governor.Lease) {
		for range most {
			lease, rej := o.Acquire(context.Background(), governor.Request{Tenant: tenant, Pool: "p", Input: 1})
			if rej == nil {
				leases = append(leases, lease)
			}
		}
		return leases
	}
	end := func(leases []governor.Lease) {
		for _, l := range leases {
			l.Settle(governor.Usage{Input: 1})
		}
	}
	busy := join()
	idle := join()
	end(begin(idle, "a", 1))
	time.Sleep(5 * time.Second)
	running := begin(busy, "a", 6)
	other := begin(busy, "b", 6)
	speaks := begin(idle, "c", 1) // by whose limits the idle gateway notices a loss
	time.Sleep(3 * time.Second)
	if len(running) != 6 || len(other) != 6 || len(speaks) != 1 {
		t.Fatalf("%d, %d and %d calls run", len(running), len(other), len(speaks))
	}
	store.store.Store(memory.New(memory.Config{Fresh: true}))
	if more := begin(idle, "a", 6); len(more) > 0 {
		t.Errorf("%d more than 6 run right after the loss", len(more))
	}
	time.Sleep(500 * time.Millisecond)
	store.store.Store(memory.New(memory.Config{Fresh: true})) // the busy one has not told yet
	if more := begin(idle, "b", 6); len(more) > 0 {
		t.Errorf("%d more than 6 run of a tenant that was not known there", len(more))
	}
	end(running)
	end(other)
	time.Sleep(4 * time.Second)
	for _, tenant := range []string{"a", "b"} {
		leases := begin(idle, tenant, 6)
		if len(leases) != 6 {
			t.Errorf("%d of 6 run of %s, of which nothing runs elsewhere", len(leases), tenant)
		}
		end(leases)
	}
	end(speaks)
}

// TestLimits_FlushedShares: a store that loses all data while gateways run keeps back nothing of a tenant's share of a pool's budget.
func TestLimits_FlushedShares(t *testing.T) {
	for after := range 10 {
		synctest.Test(t, func(t *testing.T) {
			store := &shares{away: 2 * time.Millisecond}
			store.store.Store(memory.New(memory.Config{}))
			var list []*office
			for range 2 {
				f := &folder{epochs: map[string]int64{}}
				list = append(list, f.open(t, store, governor.LimitsLeased))
			}
			time.Sleep(6 * time.Second)
			for _, o := range list {
				try(o, "a", 10)
				try(o, "b", 12)
			}
			time.Sleep(time.Duration(after) * 100 * time.Millisecond)
			store.store.Store(memory.New(memory.Config{Fresh: true}))
			time.Sleep(5 * time.Second)
			if n := try(list[1], "b", 40); n > 36 || n < 33 {
				t.Errorf("after %d00 ms more: %d calls are served, where 36 of a share of 60 are left", after, n)
			}
		})
	}
}

// folder is what a gateway keeps over its restarts.
type folder struct {
	mu      sync.Mutex
	records []record.Record
	epochs  map[string]int64
}

func (f *folder) Append(r record.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, r)
	return nil
}

func (f *folder) past() *record.Past {
	p := record.NewPast(time.Now(), time.UTC)
	for _, r := range f.records {
		p.Read(r)
		p.Uses.Read(&r)
	}
	return p
}

func (f *folder) former(owner string) int64 { return f.epochs[owner] }

func (f *folder) keep(owner string, epoch int64) {
	f.epochs[owner] = epoch
	if epoch == 0 {
		delete(f.epochs, owner)
	}
}

// open starts a gateway with what earlier ones have kept.
func (f *folder) open(t *testing.T, store *shares, mode governor.LimitsMode) *office {
	t.Helper()
	return launch(t, governor.Config{
		Shared: true, SharedLimits: true, SharedSlots: true, Journal: f, Past: f.past(), Zone: time.UTC,
		Pools: []governor.Pool{{
			Name: "p", Concurrency: 1000, MaxQueue: 1000, TenantLimits: mode,
			Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 180, Per: budget.Day}},
		}},
		Tenants: []governor.Tenant{
			{Name: "a", Weight: 1, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 60, Per: budget.Day}}, MaxWait: time.Second},
			{Name: "b", Weight: 1, MaxWait: time.Second},
			{Name: "c", Weight: 1, RPM: 20, MaxWait: time.Second},
		},
	}, runner.LimitsConfig{Store: store, Former: f.former, Keep: f.keep})
}

// try is how many of so many calls are served, two each second.
func try(o *office, tenant string, calls int) (served int) {
	for range calls {
		lease, rej := o.Acquire(context.Background(), governor.Request{Tenant: tenant, Pool: "p", Input: 1})
		if rej == nil {
			lease.Settle(governor.Usage{Input: 1})
			served++
		}
		time.Sleep(500 * time.Millisecond)
	}
	return served
}

// TestLimits_AllRestarted: if all gateways are killed and started again, what they used of budgets and of the last minute counts on, and
// counts once: if the store has lost it, by what their journals say, also if they are killed again before the store has learnt from all.
func TestLimits_AllRestarted(t *testing.T) {
	for name, mode := range map[string]governor.LimitsMode{"leased": governor.LimitsLeased, "strict": governor.LimitsStrict} {
		for _, c := range []struct {
			what   string
			lost   bool
			starts int
		}{{"data lost", true, 1}, {"data kept", false, 1}, {"data lost, twice", true, 2}} {
			testkit.Virtual(t, name+", "+c.what, func(t *testing.T) { allRestarted(t, mode, c.lost, c.starts) })
		}
	}
}

func allRestarted(t *testing.T, mode governor.LimitsMode, lost bool, starts int) {
	store := &shares{away: 2 * time.Millisecond}
	store.store.Store(memory.New(memory.Config{}))
	folders := []*folder{{epochs: map[string]int64{}}, {epochs: map[string]int64{}}}
	var list []*office
	start := func() {
		list = nil
		for _, f := range folders {
			list = append(list, f.open(t, store, mode))
		}
	}
	kill := func() {
		store.lost.Store(true) // nobody says that they end
		for _, o := range list {
			o.stop()
		}
		store.lost.Store(false)
	}
	start()
	time.Sleep(6 * time.Second)
	for i, o := range list {
		a := try(o, "a", 20)
		b := try(o, "b", 15-5*i)
		c := try(o, "c", 8)
		if a != 20 || b != 15-5*i || c != 8 {
			t.Errorf("%d of 20, %d of %d and %d of 8 calls are served", a, b, 15-5*i, c)
		}
	}
	kill()
	if lost {
		store.store.Store(memory.New(memory.Config{Fresh: true}))
	}
	start()
	for range starts - 1 {
		time.Sleep(1500 * time.Millisecond)
		kill()
		start()
	}
	time.Sleep(4 * time.Second)
	c := try(list[0], "c", 10)
	a := try(list[0], "a", 15) + try(list[1], "a", 15)
	b := try(list[1], "b", 45)
	t.Logf("then %d of the 4 left of a minute, %d of the 20 left of a tenant's budget, and %d of the 35 left of its part of a pool's", c, a, b)
	if a > 20 || a < 17 || b > 35 || b < 31 || c > 4 || lost && c < 3 {
		t.Errorf("more or less is served than is left")
	}
}
