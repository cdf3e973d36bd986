package sharing

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// desk answers for all limits of a governor, some way away.
type desk struct {
	g    *governor.Governor
	away time.Duration
	done chan struct{}

	mu    sync.Mutex
	part  func(c parts.Claim) parts.Part
	told  int
	known map[*Limits]int // which answer is in force
}

// asked is the answer that grants what is asked for, and knows of nobody else.
func asked(c parts.Claim) parts.Part { return parts.Part{Part: max(c.Want, c.Need)} }

// openDesk answers whenever something is new, until the test is over.
func openDesk(t *testing.T, away time.Duration, cfg governor.Config) *desk {
	t.Helper()
	cfg.SharedLimits = true
	if cfg.Pools == nil {
		cfg.Pools = []governor.Pool{{Name: "p", Concurrency: 1000, MaxQueue: 100}}
	}
	g := testkit.Must(governor.New(cfg))(t)
	d := &desk{g: g, away: away, part: asked, known: map[*Limits]int{}, done: make(chan struct{})}
	var under sync.WaitGroup
	under.Go(func() {
		for {
			select {
			case <-d.done:
				return
			case <-g.MoreShared():
				for _, s := range New(g).Limits() {
					apply := d.tell(s.(*Limits))
					under.Go(func() { time.Sleep(d.away); apply() })
				}
			}
		}
	})
	t.Cleanup(func() { close(d.done); under.Wait() })
	return d
}

// tell makes the answer to what limits tell now.
func (d *desk) tell(s *Limits) (apply func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told++
	nth := d.told
	d.known[s] += 0
	now := time.Now()
	claims, _ := s.Claims(now)
	list := make([]parts.Part, len(claims))
	for i, c := range claims {
		list[i] = d.part(c)
	}
	return func() {
		d.mu.Lock() // limits are for one goroutine
		defer d.mu.Unlock()
		if nth < d.known[s] {
			return // a process asks again only when it has been answered
		}
		d.known[s] = nth
		s.Apply(time.Now(), now.Add(2500*time.Millisecond), list)
	}
}

// answer is a round trip at once.
func (d *desk) answer(s *Limits) { d.tell(s)() }

// answers has it answer in another way.
func (d *desk) answers(part func(c parts.Claim) parts.Part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.part = part
}

// owners is how many have been told of.
func (d *desk) owners() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.known)
}

// ask is a call of so many tokens.
func (d *desk) ask(tenant string, tokens int64) (governor.Lease, *governor.Refusal) {
	return governor.Refused(d.g.Acquire(context.Background(), governor.Request{Tenant: tenant, Pool: "p", Input: tokens}))
}

// goes is a call of tenant a that is let in.
func (d *desk) goes(t *testing.T, tokens int64) governor.Lease {
	t.Helper()
	l, rej := d.ask("a", tokens)
	if rej != nil {
		t.Fatal(rej)
	}
	return l
}

// limits are the tenant's, once the desk has put in force what it was on: they are for one goroutine.
func (d *desk) limits(tenant string) *Limits {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for l := range d.known {
		if l.Owner() == tenant {
			return l
		}
	}
	panic("nobody has been told of " + tenant)
}

// TestCommon_AfterRest: what others had before limits were let go of refuses nobody later.
func TestCommon_AfterRest(t *testing.T) {
	for name, tenant := range map[string]governor.Tenant{
		"rolling": {RPM: 10},
		"slots":   {Concurrency: 10},
		"budget":  {Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 10, Per: budget.Month}}},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			tenant.Name = "a"
			tenant.Weight = 1
			d := openDesk(t, 10*time.Millisecond, governor.Config{Tenants: []governor.Tenant{tenant}})
			d.goes(t, 10).Release()
			d.answers(func(c parts.Claim) parts.Part { return parts.Part{Part: c.Used, Others: c.Limit - c.Used} })
			time.Sleep(time.Minute + time.Second)
			d.answer(d.limits("a"))
			if !d.limits("a").Rest(time.Now()) {
				t.Fatal("it does not rest")
			}
			d.answers(asked)
			time.Sleep(time.Hour)
			l, rej := d.ask("a", 10)
			if rej != nil || l.Waited != d.away {
				t.Errorf("after an hour: waited %v: %v", l.Waited, rej)
			}
		})
	}
}

// TestCommon_LimitComesBack: a limit that was taken away and comes back has no part until
// somebody says so.
func TestCommon_LimitComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := governor.Config{
			Pools:   []governor.Pool{{Name: "p", Concurrency: 1000, MaxQueue: 100}},
			Tenants: []governor.Tenant{{Name: "a", Weight: 1, RPM: 1000, TPM: 1000, Concurrency: 10}},
		}
		d := openDesk(t, 10*time.Millisecond, cfg)
		d.goes(t, 10).Release()
		reload := func(tpm, concurrency int64) {
			t.Helper()
			cfg.Tenants[0].TPM = tpm
			cfg.Tenants[0].Concurrency = concurrency
			testkit.OK(t, d.g.Apply(cfg))
		}
		reload(0, 0)
		d.answer(d.limits("a")) // by which the store has it that these parts are left
		reload(1000, 10)
		if l, rej := d.ask("a", 10); rej != nil || l.Waited != d.away {
			t.Errorf("waited %v: %v", l.Waited, rej)
		}
	})
}

// TestCommon_LargeBudget: who counts in other units tells the same amounts.
func TestCommon_LargeBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * budget.MaxLimit
		cfg := governor.Config{
			Pools:   []governor.Pool{{Name: "p", Concurrency: 1000, MaxQueue: 100}},
			Tenants: []governor.Tenant{{Name: "a", Weight: 1, Budgets: []governor.Budget{{Unit: governor.UnitMicroUSD, Limit: limit, Per: budget.Month}}}},
		}
		d := openDesk(t, 10*time.Millisecond, cfg)
		price := &governor.Price{Input: 1_000_000}
		costing := func(microUSD int64) governor.Lease {
			l, rej := governor.Refused(d.g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Input: microUSD, Price: price}))
			if rej != nil {
				t.Fatal(rej)
			}
			return l
		}
		costing(1000)
		s := d.limits("a")
		claims, _ := s.Claims(time.Now())
		if c := claims[0]; c.Limit != limit || c.Used != 1000 || c.Want > limit {
			t.Errorf("it tells %+v", c)
		}
		s.Apply(time.Now(), time.Now().Add(time.Second), []parts.Part{{Part: 5000, Others: 250}})
		if left := s.own.Demand(time.Now()).Parts[0].Left; left != limit-1000-300 {
			t.Errorf("of %d there are %d left, want all but 1000 and the 250 of others, rounded up", limit, left)
		}
		if l := costing(4000); l.Waited > 0 {
			t.Errorf("within the grant it waited %v", l.Waited)
		}
		if l := costing(100); l.Waited != d.away {
			t.Errorf("beyond the grant it waited %v, want %v", l.Waited, d.away)
		}
	})
}

// TestCommon_Chain: a call that finds no part of any of several limits asks for all of them at
// once, and waits for parts no longer than one would.
func TestCommon_Chain(t *testing.T) {
	for _, away := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := openDesk(t, away, governor.Config{
				Tenants: []governor.Tenant{
					{Name: "a", Weight: 1, RPM: 10, InPool: map[string]governor.Limits{"p": {RPM: 10}}},
					{Name: "a/b", Weight: 1, Concurrency: 10, InPool: map[string]governor.Limits{"p": {TPM: 1000}}},
				},
			})
			l, rej := d.ask("a/b", 10)
			if away < grantWait && (rej != nil || l.Waited != away) {
				t.Errorf("waited %v: %v", l.Waited, rej)
			}
			if away > grantWait && (rej == nil || rej.Waited != grantWait) {
				t.Errorf("without an answer: waited %v: %v", l.Waited, rej)
			}
		})
	}
}

// TestCommon_NoSlot: who was refused for want of a part comes back when there may be one, not
// when a call would end of which none runs; and finds it.
func TestCommon_NoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, 2*grantWait, governor.Config{Tenants: []governor.Tenant{{Name: "a", Weight: 1, Concurrency: 10}}})
		_, rej := d.ask("a", 10)
		if rej == nil || rej.Reason != governor.ReasonConcurrency || rej.RetryAfter != grantRetry {
			t.Fatalf("without an answer: %+v", rej)
		}
		time.Sleep(rej.RetryAfter)
		if l, rej := d.ask("a", 10); rej != nil || l.Waited > 0 {
			t.Errorf("waited %v: %v", l.Waited, rej)
		}
	})
}

// TestCommon_Unlimited: of who has no limits nothing is told.
func TestCommon_Unlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, 0, governor.Config{Tenants: []governor.Tenant{{Name: "a", Weight: 1}, {Name: "b", Weight: 1, RPM: 1}}})
		for _, name := range []string{"a", "b"} {
			if _, rej := d.ask(name, 10); rej != nil {
				t.Fatal(rej)
			}
		}
		synctest.Wait()
		if n := d.owners(); n != 1 {
			t.Errorf("%d owners are told of", n)
		}
	})
}
