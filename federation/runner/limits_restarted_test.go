package runner_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
)

// folder is what a gateway keeps over its restarts.
type folder struct {
	mu      sync.Mutex
	records []governor.Record
	epochs  map[string]int64
}

func (f *folder) Append(r governor.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, r)
	return nil
}

func (f *folder) past() *governor.Past {
	p := governor.NewPast(time.Now(), time.UTC)
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
			{Name: "a", Weight: 1000, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 60, Per: budget.Day}}, MaxWait: time.Second},
			{Name: "b", Weight: 1000, MaxWait: time.Second},
			{Name: "c", Weight: 1000, RPM: 20, MaxWait: time.Second},
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
			t.Run(name+", "+c.what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { allRestarted(t, mode, c.lost, c.starts) })
			})
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
