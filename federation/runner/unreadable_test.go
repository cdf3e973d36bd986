package runner_test

import (
	"context"
	"crypto/rand"
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
	"github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// damaged is a store that cannot read some accounts.
type damaged struct {
	*memory.Store
	mu  sync.Mutex
	bad []string // guarded by mu
}

func (d *damaged) set(owners ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bad = owners
}

func (d *damaged) isBad(owner string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.bad, owner)
}

func (d *damaged) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	replies, failed := make([]parts.Reply, len(beats)), parts.Failures{}
	for i, b := range beats {
		if d.isBad(b.Owner) {
			failed[i] = parts.ErrDamaged
			continue
		}
		got, err := d.Store.Share(ctx, []*parts.Beat{b})
		if err != nil {
			return nil, err
		}
		replies[i] = got[0]
	}
	if len(failed) > 0 {
		return replies, failed
	}
	return replies, nil
}

func (d *damaged) Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error) {
	if slices.ContainsFunc(q.Beats, func(b *parts.Beat) bool { return d.isBad(b.Owner) }) {
		replies, err := d.Share(ctx, q.Beats)
		return parts.Answer{Replies: replies}, err
	}
	return d.Store.Ask(ctx, q)
}

// twoBy starts two gateways with the store, and returns what they were told of accounts, too.
func twoBy(t *testing.T, store *damaged, cfg governor.Config) (gateways [2]*governor.Governor, told *sync.Map, stop func()) {
	t.Helper()
	told = &sync.Map{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range gateways {
		g := testkit.Must(governor.New(cfg))(t)
		gateways[i] = g
		side := sharing.New(g)
		r := runner.NewLimits(runner.LimitsConfig{
			Instance: rand.Text(), Store: store, More: side.More(), Sign: side.Sign, Limits: side.Limits, Calls: side.Calls,
			Unreadable: func(owner string, err error) { told.Store(owner, err) },
		})
		running.Go(func() { _ = r.Run(ctx) })
	}
	return gateways, told, func() { cancel(); running.Wait() }
}

// TestUnreadable: an account that the store cannot read takes its own limits alone out of service, under every mode: others go on
// being counted by all gateways together, while these are refused, or counted by each gateway where all pools are open on loss. Once it
// can be read again all is as before.
func TestUnreadable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pool  governor.Pool
		owner string
		most  int // calls of the tenant whose account is damaged, of 10 at two gateways
		why   governor.Reason
	}{
		{"leased", governor.Pool{}, "a", 0, governor.ReasonStoreLost},
		{"leased, in the pool", governor.Pool{}, "a in p", 0, governor.ReasonStoreLost},
		// Its limits in the pool are still counted by all.
		{"leased, open", governor.Pool{OnLoss: governor.LossOpen}, "a", 10, governor.ReasonRequests},
		{"strict", governor.Pool{TenantLimits: governor.LimitsStrict}, "a", 0, governor.ReasonStoreLost},
		{"cached_deny", governor.Pool{TenantLimits: governor.LimitsCachedDeny}, "a", 0, governor.ReasonStoreLost},
		{"strict, open", governor.Pool{TenantLimits: governor.LimitsStrict, OnLoss: governor.LossOpen}, "a", 20, governor.ReasonRequests},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &damaged{Store: memory.New(memory.Config{})}
				tc.pool.Name, tc.pool.Concurrency, tc.pool.MaxQueue = "p", 1000, 100
				limits := governor.Limits{RPM: 10}
				tenant := func(name string) governor.Tenant {
					return governor.Tenant{
						Name: name, Weight: 1, RPM: 10, MaxWait: 5 * time.Second, InPool: map[string]governor.Limits{"p": limits},
						Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 1000, Per: budget.Month}},
					}
				}
				list, told, stop := twoBy(t, store, governor.Config{
					SharedLimits: true, Pools: []governor.Pool{tc.pool}, Tenants: []governor.Tenant{tenant("a"), tenant("b")},
				})
				defer stop()
				store.set(tc.owner)
				// Twelve calls of each tenant come to each gateway at once, so that none of a part is idle while a call waits.
				flood := func() (in map[string]int, why map[governor.Reason]int) {
					in, why = map[string]int{}, map[governor.Reason]int{} // why calls of a were refused
					var mu sync.Mutex
					var calls sync.WaitGroup
					for n := range 48 {
						g, who := list[n/2%2], []string{"a", "b"}[n%2]
						calls.Go(func() {
							l, rej := governor.Refused(g.Acquire(t.Context(), governor.Request{Tenant: who, Pool: "p", Input: 1}))
							mu.Lock()
							defer mu.Unlock()
							switch {
							case rej == nil:
								in[who]++
								l.Settle(governor.Usage{Input: 1})
							case who == "a":
								why[rej.Reason]++
							}
						})
					}
					calls.Wait()
					return in, why
				}
				in, why := flood()
				if in["a"] != tc.most || in["b"] != 10 || why[tc.why] == 0 {
					t.Errorf("of 10 calls %d of a went, want %d, and %d of b; the others were refused for %v", in["a"], tc.most, in["b"], why)
				}
				if err, _ := told.Load(tc.owner); err != parts.ErrDamaged {
					t.Errorf("of %s it is told that %v", tc.owner, err)
				}
				told.Range(func(owner, err any) bool {
					if owner != tc.owner && err != nil {
						t.Errorf("of %s it is told that %v", owner, err)
					}
					return true
				})
				store.set()
				time.Sleep(66 * time.Second)
				if in, _ := flood(); in["a"] != 10 || in["b"] != 10 {
					t.Errorf("of 10 calls %v went once it could be read again", in)
				}
				if err, _ := told.Load(tc.owner); err != nil {
					t.Errorf("of %s it is still told that %v", tc.owner, err)
				}
			})
		})
	}
}
