package runner_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// budgeted has a pool with a budget of so many requests a month, and room for all else.
func budgeted(requests int64) func(*governor.Pool) {
	return func(p *governor.Pool) {
		p.Concurrency = 0
		p.Budgets = []governor.Budget{{Unit: governor.UnitRequests, Limit: requests, Per: budget.Month}}
	}
}

// budgetFleet is gateways with room for all calls that a budget leaves.
func budgetFleet(t *testing.T, gateways int, edit func(*governor.Pool)) *fleet {
	t.Helper()
	f := newFleet(t, 1<<30)
	for range gateways {
		f.join(f.config(edit))
	}
	return f
}

// spend has callers of a tenant ask at gateways for so long, and counts the calls that went.
func (f *fleet) spend(list []*berth, tenant string, d time.Duration) (n int) {
	var group sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(d)
	for _, b := range list {
		for range 4 {
			group.Go(func() {
				for time.Now().Before(end) {
					if f.call(b, tenant, false, 50*time.Millisecond+f.random(100*time.Millisecond)) == nil {
						mu.Lock()
						n++
						mu.Unlock()
					} else {
						time.Sleep(50 * time.Millisecond)
					}
				}
			})
		}
	}
	group.Wait()
	return n
}

// TestPoolBudget: gateways spend a pool's budget once, and each tenant its share of it, wherever
// its calls come in; also when a gateway ends and another begins.
func TestPoolBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := budgetFleet(t, 3, budgeted(1200)) // a has 600, and b, c and now 200 each
		list := f.berths
		time.Sleep(3 * time.Second)
		b := f.spend(list, "b", 30*time.Second)
		if b != 200 {
			t.Errorf("b spends %d, of 200 that are its share", b)
		}
		list[0].stop() // it ends in order, and one begins that knows nothing
		late := f.join(f.config(budgeted(1200)))
		time.Sleep(3 * time.Second)
		list = []*berth{list[1], list[2], late}
		if more := f.spend(list, "b", 10*time.Second); more > 0 {
			t.Errorf("b spends %d more", more)
		}
		c := f.spend(list[2:], "c", 30*time.Second)
		if c != 200 {
			t.Errorf("c spends %d, of 200 that are its share", c)
		}
		a := f.spend(list, "a", 60*time.Second)
		now := f.spend(list, "now", 30*time.Second)
		if t.Logf("a %d, b %d, c %d, now %d", a, b, c, now); a != 600 || now != 200 {
			t.Errorf("a spends %d of 600, and now %d of 200", a, now)
		}
		rej := f.call(list[0], "b", false, 0)
		if rej == nil || rej.Reason != governor.ReasonBudget {
			t.Errorf("of a budget that is spent: %+v", rej)
		}
	})
}

// TestPoolBudget_First: the first call of a gateway waits for a part, whatever its max_wait, and is
// not refused.
func TestPoolBudget_First(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := budgetFleet(t, 2, budgeted(100))
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { f.call(f.berths[0], "a", false, time.Second) })
		}
		group.Wait()
		if len(f.seen().refused) > 0 {
			t.Errorf("refused: %v", f.seen().refused)
		}
	})
}

// TestPoolBudget_Together: where all ask at once a budget is spent once, and by weight; also by gateways
// that are cut off meanwhile, and one that dies.
func TestPoolBudget_Together(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := budgetFleet(t, 3, budgeted(1200))
		time.Sleep(3 * time.Second)
		var group sync.WaitGroup
		spent := map[string]int{}
		var mu sync.Mutex
		for _, tenant := range []string{"a", "b", "c", "now"} {
			group.Go(func() {
				n := f.spend(f.berths, tenant, 90*time.Second)
				mu.Lock()
				spent[tenant] = n
				mu.Unlock()
			})
		}
		time.Sleep(2 * time.Second)
		f.berths[1].way.cut.Store(true)
		time.Sleep(10 * time.Second)
		f.berths[1].way.cut.Store(false)
		time.Sleep(5 * time.Second)
		f.berths[2].way.cut.Store(true) // for good
		group.Wait()
		all := 0
		for _, n := range spent {
			all += n
		}
		t.Logf("%v, %d in all", spent, all)
		if all > 1200 || all < 1190 {
			t.Errorf("%d of 1200 are spent", all)
		}
		if spent["a"] < 590 || spent["b"] > 205 || spent["c"] > 205 || spent["now"] > 205 {
			t.Errorf("of 600, 200, 200 and 200 that are their shares tenants spend %v", spent)
		}
		f.berths[2].way.cut.Store(false)
	})
}

// TestPoolBudget_Last: of a small budget all is spent, however many gateways ask for the last of it.
func TestPoolBudget_Last(t *testing.T) {
	for _, gateways := range []int{2, 3, 8} {
		for range testkit.Rounds(1, 4) {
			synctest.Test(t, func(t *testing.T) {
				f := budgetFleet(t, gateways, budgeted(30))
				time.Sleep(3 * time.Second)
				var group sync.WaitGroup
				var all atomic.Int64
				for _, tenant := range []string{"a", "b", "c", "now"} {
					group.Go(func() { all.Add(int64(f.spend(f.berths, tenant, 30*time.Second))) })
				}
				group.Wait()
				if all.Load() != 30 {
					t.Errorf("%d gateways spend %d of 30", gateways, all.Load())
				}
			})
		}
	}
}

// TestPoolBudget_Borrowed: what is reserved for nobody any more is spent once, whoever asks where.
func TestPoolBudget_Borrowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(49 * time.Minute)
		f := budgetFleet(t, 3, func(p *governor.Pool) {
			budgeted(1200)(p)
			p.Budgets[0].Per = budget.Hour
		})
		time.Sleep(time.Minute)
		var group sync.WaitGroup
		var mu sync.Mutex
		all := 0
		for i, tenant := range []string{"b", "c", "now", "a"} {
			group.Go(func() {
				n := f.spend(f.berths[i%3:i%3+1], tenant, 60*time.Second)
				mu.Lock()
				all += n
				mu.Unlock()
			})
		}
		group.Wait()
		if t.Logf("%d of 1200", all); all != 1200 {
			t.Errorf("%d of 1200 are spent, of which shares have let pass all but a sixth", all)
		}
	})
}

// TestPoolBudget_Rested: what a gateway had for a tenant who does not ask there any more others have.
func TestPoolBudget_Rested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := budgetFleet(t, 2, budgeted(60))
		time.Sleep(3 * time.Second)
		f.call(f.berths[0], "b", false, time.Second)
		time.Sleep(8 * time.Second)
		if n := f.spend(f.berths[1:], "b", 10*time.Second); n != 9 {
			t.Errorf("of nine that are left of a share %d are spent", n)
		}
		if n := f.spend(f.berths[:1], "b", 3*time.Second); n != 0 {
			t.Errorf("of a share that is spent %d more are", n)
		}
	})
}
