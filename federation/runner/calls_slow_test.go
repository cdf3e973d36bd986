package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// far is a store that takes so long to answer, in nanoseconds.
type far struct {
	*memory.Store
	takes *atomic.Int64
}

func farStore() far { return far{memory.New(memory.Config{}), new(atomic.Int64)} }

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
	case <-time.After(time.Duration(f.takes.Load())):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// farOffices are two gateways with such a store and such tenants. Of their pools one asks for each call.
func farOffices(t *testing.T, store far, tenants ...governor.Tenant) (list []*office) {
	t.Helper()
	for range 2 {
		list = append(list, openWith(t, store, governor.Config{
			SharedLimits: true,
			Pools: []governor.Pool{
				{Name: "p", Concurrency: 10_000, MaxQueue: 1000},
				{Name: "q", Concurrency: 10_000, MaxQueue: 1000, TenantLimits: governor.LimitsStrict},
			},
			Tenants: tenants,
		}))
	}
	return list
}

// waits is a tenant of four calls at once that waits for a second.
func waits(name string) governor.Tenant {
	return governor.Tenant{Name: name, Weight: 1, Concurrency: 4, MaxWait: time.Second}
}

// TestAsk_TooFar: a store that answers too late for calls that ask serves those all the same that hold parts: no
// gateway counts alone.
func TestAsk_TooFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := farStore()
		store.takes.Store(int64(400 * time.Millisecond))
		list := farOffices(t, store, waits("a"), governor.Tenant{Name: "b", Weight: 1, Concurrency: 4})
		end := time.Now().Add(time.Minute)
		for _, o := range list {
			go func() {
				for time.Now().Before(end) {
					_, rej := governor.Refused(o.Acquire(context.Background(), governor.Request{Tenant: "b", Pool: "q", Input: 10}))
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
	})
}

// TestAsk_SlowerThanCallsWait: limits that calls may ask for are kept through a store that has become too
// slow for that, also while nobody asks.
func TestAsk_SlowerThanCallsWait(t *testing.T) {
	for _, takes := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond} {
		testkit.Virtual(t, takes.String(), func(t *testing.T) {
			store := farStore()
			list := farOffices(t, store, waits("a"))
			for _, o := range list {
				lease, rej := governor.Refused(o.Acquire(context.Background(), governor.Request{Tenant: "a", Pool: "q", Input: 10}))
				if rej != nil {
					t.Fatal(rej)
				}
				lease.Settle(governor.Usage{})
			}
			time.Sleep(300 * time.Millisecond)
			store.takes.Store(int64(takes))
			var l load
			l.flood(list, 4, time.Minute, 10*time.Millisecond, 200*time.Millisecond)
			if n := l.atOnce(); n > 4 {
				t.Errorf("of 4 calls at once there were %d", n)
			}
			if n := len(l.used); n < 60*4*5/4 {
				t.Errorf("%d calls of 200 ms were let in, in a minute, 4 at once", n)
			}
		})
	}
}
