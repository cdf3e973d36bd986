package governor

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPriority_OfCalls: of a tenant's calls that wait, those of higher priorities go first, and of one priority whoever came first: at the tenant's
// own limits and in the pool's queue. No call goes before others because it says that its priority is above its tenant's.
func TestPriority_OfCalls(t *testing.T) {
	slot := Config{Pools: []Pool{{Name: "p", MaxQueue: 100}}, Tenants: []Tenant{{Name: "a", Weight: 1000, MaxWait: time.Hour, Concurrency: 1}}}
	pool := Config{Pools: []Pool{{Name: "p", MaxQueue: 100, Concurrency: 1}}, Tenants: []Tenant{{Name: "a", Weight: 1000, MaxWait: time.Hour}}}
	minute := Config{Pools: []Pool{{Name: "p", MaxQueue: 100}}, Tenants: []Tenant{{Name: "a", Weight: 1000, MaxWait: time.Hour, RPM: 1}}}
	asks := []Request{{ID: "auxiliary", Below: 8}, {ID: "subagent", Below: 5}, {ID: "batch", Background: true}, {ID: "subagent 2", Below: 5}, {ID: "main"}}
	for name, c := range map[string]struct {
		cfg   Config
		below int
		want  []string
	}{
		"own slot":         {slot, 0, []string{"main", "subagent", "subagent 2", "auxiliary", "batch"}},
		"own minute":       {minute, 0, []string{"main", "subagent", "subagent 2", "auxiliary", "batch"}},
		"pool":             {pool, 0, []string{"main", "subagent", "subagent 2", "auxiliary", "batch"}},
		"own slot, from 4": {slot, 5, []string{"subagent", "subagent 2", "main", "auxiliary", "batch"}},
		"pool, from 4":     {pool, 5, []string{"subagent", "subagent 2", "main", "auxiliary", "batch"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := c.cfg
			cfg.Tenants = slices.Clone(cfg.Tenants)
			cfg.Tenants[0].Below = c.below
			g := must(t, cfg)
			first := admitted(t, g, Request{Tenant: "a", Pool: "p"})
			var order []string
			var wg sync.WaitGroup
			for _, r := range asks {
				r.Tenant, r.Pool = "a", "p"
				wg.Go(func() {
					l, rej := Rejected(g.Acquire(t.Context(), r))
					if rej != nil {
						t.Error(rej)
						return
					}
					order = append(order, r.ID)
					time.Sleep(time.Second)
					l.Settle(Usage{})
				})
				synctest.Wait()
				time.Sleep(time.Millisecond)
			}
			first.Settle(Usage{})
			wg.Wait()
			if !slices.Equal(order, c.want) {
				t.Errorf("%s: they went in the order %q, want %q", name, order, c.want)
			}
		})
	}
}

// TestPriority_WaitIsItsOwn: a call that goes before those that wait is not refused for the time that these will take.
func TestPriority_WaitIsItsOwn(t *testing.T) {
	tenant := Tenant{Name: "a", Weight: 1000, MaxWait: time.Hour}
	limited := tenant
	limited.RPM = 1
	for name, c := range map[string]struct {
		cfg  Config
		wait time.Duration
	}{
		"own":  {Config{Pools: []Pool{{Name: "p", MaxQueue: 100}}, Tenants: []Tenant{limited}}, 90 * time.Second},
		"pool": {Config{Pools: []Pool{{Name: "p", MaxQueue: 100, RPM: 10}}, Tenants: []Tenant{tenant}}, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := must(t, c.cfg)
			var wg sync.WaitGroup
			for range 40 {
				wg.Go(func() {
					if l, rej := Rejected(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Below: 5})); rej == nil {
						l.Settle(Usage{})
					}
				})
			}
			synctest.Wait()
			l, rej := Rejected(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", MaxWait: &c.wait}))
			if rej != nil {
				t.Errorf("%s: %v", name, rej)
			}
			l.Settle(Usage{})
			wg.Wait()
		})
	}
}
