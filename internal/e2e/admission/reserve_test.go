package admission

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
)

// TestReserve_BackgroundShare: over HTTP, a background team receives what it is entitled to by the gateway's
// own figures, within 3 %, beside interactive calls that fill the pool. Before, it received nothing.
func TestReserve_BackgroundShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := harness.Pool(0, 0, 10)
		pool.InteractiveReserve = 2
		chat := harness.Tenant("chat", 4)
		batch := harness.Tenant("batch", 1)
		batch.Background = true
		w := harness.World{Pool: pool, Mock: mock.Config{FirstToken: 200 * time.Millisecond, TokensPerSecond: 50}}
		w.Tenants = append(w.Tenants, chat, batch)
		for i := range w.Tenants {
			w.Tenants[i].MaxWait = time.Minute
		}
		s := harness.New(t, w)
		ctx, stop := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for tenant, workers := range map[string]int{"chat": 15, "batch": 5} {
			for i := range workers {
				body := harness.Chat(true, 100, `,"mock":{"output_tokens":`+strconv.Itoa(30+7*i)+`}`)
				calls.Go(func() {
					for ctx.Err() == nil {
						if a := s.Call(t.Context(), tenant, body); a.Err != nil || a.Status != http.StatusOK {
							t.Errorf("a call of %s gets %d, %v: %s", tenant, a.Status, a.Err, a.Body)
							return
						}
					}
				})
			}
		}
		minutes := testkit.Rounds(1, 3)
		entitled := 0.0
		received := 0.0
		time.Sleep(time.Minute)
		for range minutes {
			time.Sleep(time.Minute)
			for _, share := range s.Governor.State().Pools[0].Shares {
				if share.Tenant == "batch" {
					entitled += share.Entitled / float64(minutes)
					received += share.Received / float64(minutes)
				}
			}
		}
		stop()
		calls.Wait()
		t.Logf("batch was entitled to %.4f of the pool, and received %.4f", entitled, received)
		if math.Abs(received/entitled-1) > 0.03 || math.Abs(entitled/0.2-1) > 0.03 {
			t.Errorf("batch was entitled to %.4f of the pool and received %.4f, want 0.2 of both", entitled, received)
		}
	})
}
