package governor

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestShares_ColdStart: at first calls are charged twenty times what they take, for nobody knows
// that. When they have given that back, what tenants received is what their calls of the last
// minute took, and they were entitled to the same in all: nothing that was charged in the first
// seconds is missing from the next minute.
func TestShares_ColdStart(t *testing.T) {
	const tpm, declared, took = 600_000, 4096, 200
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: tpm, Burst: 10 * time.Second, MaxQueue: 1000}},
			Tenants: []Tenant{{Name: "a", Weight: 2000, MaxWait: time.Hour}, {Name: "b", Weight: 1000, MaxWait: time.Hour}},
		})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		began := map[string][]time.Time{}
		for _, name := range []string{"a", "b"} {
			for range 100 {
				wg.Go(func() {
					for ctx.Err() == nil {
						l, rej := g.Acquire(ctx, demand(name, declared))
						if rej != nil {
							return
						}
						mu.Lock()
						began[name] = append(began[name], time.Now())
						mu.Unlock()
						time.Sleep(4 * time.Second)
						l.Settle(Usage{Output: took})
					}
				})
			}
		}
		time.Sleep(70*time.Second + time.Second/2)
		for second := 70; second < 180; second++ {
			_, by := sharesOf(g)
			received := 0.0
			entitled := 0.0
			for name, s := range by {
				received = received + s.Received
				entitled = entitled + s.Entitled
				calls := 0
				mu.Lock()
				for _, at := range began[name] {
					if time.Since(at) < time.Minute {
						calls++
					}
				}
				mu.Unlock()
				if truth := float64(calls) * took / tpm; math.Abs(s.Received-truth) > .03 {
					t.Errorf("after %d s: %s received %.3f, and its calls took %.3f", second, name, s.Received, truth)
				}
			}
			if math.Abs(entitled-received) > .02 {
				t.Errorf("after %d s: all received %.3f, and were entitled to %.3f", second, received, entitled)
			}
			time.Sleep(time.Second)
		}
		stop()
		wg.Wait()
	})
}
