package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
)

// far is a store that takes so long to answer.
type far struct {
	*memory.Store
	takes time.Duration
}

func (f far) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	replies, _ := f.Store.Share(ctx, beats)
	return replies, f.back(ctx)
}

func (f far) Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error) {
	answer, _ := f.Store.Ask(ctx, q)
	return answer, f.back(ctx)
}

func (f far) back(ctx context.Context) error {
	select {
	case <-time.After(f.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestAsk_TooFar: a store that answers too late for calls that ask serves those all the same that hold parts: no
// gateway counts alone.
func TestAsk_TooFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far{memory.New(memory.Config{}), 400 * time.Millisecond}
		var list []*office
		for range 2 {
			list = append(list, openWith(t, store, governor.Config{
				SharedLimits: true,
				Pools: []governor.Pool{
					{Name: "p", Concurrency: 10_000, MaxQueue: 1000},
					{Name: "q", Concurrency: 10_000, MaxQueue: 1000, TenantLimits: governor.LimitsStrict},
				},
				Tenants: []governor.Tenant{{Name: "a", Weight: 1000, Concurrency: 4, MaxWait: time.Second}, {Name: "b", Weight: 1000, Concurrency: 4}},
			}))
		}
		end := time.Now().Add(time.Minute)
		for _, o := range list {
			go func() {
				for time.Now().Before(end) {
					_, rej := o.Acquire(context.Background(), governor.Request{Tenant: "b", Pool: "q", Input: 10})
					if rej == nil || rej.Reason != governor.ReasonStoreLost {
						t.Errorf("a call that asks: %v", rej)
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
		}
		var l load
		l.flood(list, 4, time.Minute, 10*time.Millisecond, 200*time.Millisecond)
		if n := l.atOnce(); n != 4 {
			t.Errorf("of 4 calls at once of a tenant that asks nobody there were %d", n)
		}
		if n := len(l.used); n < 60*4*5/2 {
			t.Errorf("%d calls of 200 ms were let in, in a minute, 4 at once", n)
		}
		for _, o := range list {
			o.stop()
		}
	})
}
