package governor

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// flood keeps workers of each tenant asking for calls of 1000 tokens, and says what
// part of the limit each received in five minutes, after two.
func flood(t *testing.T, cfg Config, workers map[string]int) map[string]float64 {
	t.Helper()
	g := must(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	got := map[string]*atomic.Int64{}
	for name, n := range workers {
		sum := &atomic.Int64{}
		got[name] = sum
		for range n {
			wg.Go(func() {
				for ctx.Err() == nil {
					l, rej := g.Acquire(ctx, demand(name, 1000))
					if rej != nil {
						continue
					}
					l.Settle(Usage{Output: 1000})
					sum.Add(1000)
				}
			})
		}
	}
	time.Sleep(2 * time.Minute)
	for _, sum := range got {
		sum.Store(0)
	}
	time.Sleep(5 * time.Minute)
	shares := map[string]float64{}
	for name, sum := range got {
		shares[name] = float64(sum.Load()) / 5 / float64(cfg.Pools[0].TPM)
	}
	stop()
	wg.Wait()
	return shares
}

func near(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, share := range want {
		t.Logf("%s received %.4f of the limit, ideal %.4f", name, got[name], share)
		if math.Abs(got[name]-share) > 0.02*share+0.002 {
			t.Errorf("%s received %.4f of the limit, want %.4f", name, got[name], share)
		}
	}
}

// A grouped tier has one weight for all its tenants, however many they are; what
// they leave goes to the others.
func TestGroupsShareOneWeight(t *testing.T) {
	cfg := Config{Pools: []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}}}
	cfg.Tenants = append(cfg.Tenants, Tenant{Name: "pro", Weight: 2000, MaxWait: time.Hour})
	for _, name := range []string{"f1", "f2", "f3"} {
		cfg.Tenants = append(cfg.Tenants, Tenant{Name: name, Weight: 1000, Group: "free", GroupWeight: 1000, MaxWait: time.Hour})
	}
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"pro": 8, "f1": 8, "f2": 8, "f3": 8}),
			map[string]float64{"pro": 2. / 3, "f1": 1. / 9, "f2": 1. / 9, "f3": 1. / 9})
	})
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"pro": 8, "f1": 8}), map[string]float64{"pro": 2. / 3, "f1": 1. / 3})
	})
}

// A floor goes before weights, and does not add to a share that is larger.
func TestFloorsGoBeforeWeights(t *testing.T) {
	cfg := Config{
		Pools: []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}},
		Tenants: []Tenant{
			{Name: "small", Weight: 100, Floor: 180_000, MaxWait: time.Hour},
			{Name: "large", Weight: 2000, Floor: 60_000, MaxWait: time.Hour},
			{Name: "other", Weight: 1900, MaxWait: time.Hour},
		},
	}
	synctest.Test(t, func(t *testing.T) {
		near(t, flood(t, cfg, map[string]int{"small": 8, "large": 8, "other": 8}),
			map[string]float64{"small": 0.3, "large": 0.7 * 2000 / 3900, "other": 0.7 * 1900 / 3900})
	})
}
