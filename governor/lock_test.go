package governor

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// ticking is a clock that goes on by 1 ms each time it is read, which is each time that the lock is taken. Its timers do not ring by themselves.
type ticking struct {
	late
	read func() // under the lock; may be nil
}

func (c *ticking) Now() time.Time {
	c.now = c.now.Add(time.Millisecond)
	if c.read != nil {
		c.read()
	}
	return c.now
}

// manyAndMembers is a configuration of 200 tenants, and one with members, and a pool with a budget.
func manyAndMembers(clock Clock, recorded bool) Config {
	cfg := many(200, 1, 0)
	cfg.Pools[0].Name = "p"
	cfg.Pools[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 1e9, Per: budget.Day}}
	cfg.Tenants = append(cfg.Tenants, Tenant{Name: "org", Weight: 1, Members: &Members{Of: map[string]terms.MemberOverride{}}})
	cfg.Clock = clock
	cfg.Recorded = recorded
	return cfg
}

// Who looks at very many lets others in meanwhile, also where calls are recorded.
func TestLock_LooksLetOthersIn(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		clock := &ticking{late: late{now: time.Unix(1_000_000, 0)}}
		g := must(t, manyAndMembers(clock, recorded))
		for i := range 200 {
			admitted(t, g, demand(fmt.Sprint("org/~m", i), 1)).Settle(Usage{Output: 1})
		}
		for name, look := range map[string]func(){
			"State": func() { g.State() }, "Saved": func() { g.Saved() }, "Heaviest": func() { g.Heaviest("org", 3) },
		} {
			before := clock.now
			look()
			if took := clock.now.Sub(before) / time.Millisecond; took < 4 {
				t.Errorf("recorded %v: %s takes the lock %d times", recorded, name, took)
			}
		}
	}
}

// Whoever is decided on by a new configuration is told of after it, and what it puts in force is of the time when it does.
func TestLock_AConfigurationIsToldBeforeItsCalls(t *testing.T) {
	clock := &ticking{late: late{now: time.Unix(1_000_000, 0)}}
	cfg := manyAndMembers(clock, false)
	var list []EventKind
	var applied time.Time
	cfg.Observer = observes(func(e Event) {
		list = append(list, e.Kind)
		if e.Kind == EventApplied {
			applied = e.At
		}
	})
	g := must(t, cfg)
	began := clock.now
	clock.read = func() { // by the first who can be decided on by it
		if g.table.number > 1 {
			clock.read = nil
			g.events.tell(Event{Kind: EventAdmitted})
		}
	}
	cfg.Tenants[0].Weight = 2 // so that its pool's shares are measured anew, with the lock given back
	testkit.OK(t, g.Apply(cfg))
	if len(list) != 2 || list[0] != EventApplied {
		t.Errorf("told are %v", list)
	}
	if took := applied.Sub(began); took < 4*time.Millisecond {
		t.Errorf("it was in force after %v", took)
	}
}

// A panic keeps the lock: nobody goes on by books that are written by half.
func TestLock_APanicKeepsIt(t *testing.T) {
	for name, panics := range map[string]func(g *Governor){
		"within": func(g *Governor) {
			g.lock()
			defer g.unlock()
			panic("within")
		},
		"aside": func(g *Governor) {
			g.lock()
			defer g.unlock()
			g.aside(func() { panic("aside") })
		},
	} {
		g := must(t, Config{Pools: []Pool{{Name: "p", RPM: 1}}})
		func() {
			defer func() {
				if cause := recover(); cause != name {
					t.Errorf("%s: it panics with %v", name, cause)
				}
			}()
			panics(g)
		}()
		if g.mu.TryLock() {
			t.Errorf("%s: others go on", name)
		}
	}
}

// One thing that wakes very many calls lets others have the lock between them.
func TestLock_ManyWokenCalls(t *testing.T) {
	clock := &late{now: time.Unix(1_000_000, 0)}
	g := must(t, Config{
		Pools: []Pool{{Name: "p", Concurrency: 1, MaxQueue: 1000}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}}, Clock: clock,
	})
	admitted(t, g, demand("a", 1))
	refused := 0
	for range 3 * stride {
		g.Ask(demand("a", 1), func(Lease, *Refusal) { refused++ })
	}
	g.Drain()
	for holds := 1; holds <= 3; holds++ {
		if refused != holds*stride {
			t.Errorf("in %d holds of the lock %d calls of %d were decided", holds, refused, 3*stride)
		}
		g.Touch()
	}
}

// An answer of the store that comes in time counts, even if this process gets to it after the call's time.
func TestLock_AnswersBeforeWhatIsDue(t *testing.T) {
	clock := &late{now: time.Unix(1_000_000, 0)}
	g := must(t, Config{
		Pools:   []Pool{{Name: "p", Concurrency: 9, TenantLimits: LimitsStrict}},
		Tenants: []Tenant{{Name: "a", Weight: 1, RPM: 10}}, Clock: clock, SharedLimits: true,
	})
	for what, answer := range map[string]func(*SharedCall){
		"admitted": func(c *SharedCall) { c.Let(clock.now, nil) },
		"requests": func(c *SharedCall) { c.Refuse(nil, time.Minute) },
	} {
		came := ""
		g.Ask(demand("a", 1), func(_ Lease, rej *Refusal) {
			came = "admitted"
			if rej != nil {
				came = rej.Reason.String()
			}
		})
		asked := g.SharedCalls()[0]
		clock.now = clock.now.Add(2 * askWait)
		answer(asked)
		if came != what {
			t.Errorf("a call that is answered late is %q, want %q", came, what)
		}
	}
}
