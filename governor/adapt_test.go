package governor

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// server has so many slots, and lets who finds none wait without a word.
type server chan struct{}

// serve takes a call through it: first token, and answer.
func (s server) serve(l Lease, stream bool, first, rest time.Duration, output int64) {
	s <- struct{}{}
	time.Sleep(first)
	if stream {
		l.Progress(0)
	}
	time.Sleep(rest)
	<-s
	l.Settle(Usage{Input: 100, Output: output})
}

func (g *Governor) slotsOf(pool string) int64 {
	now := g.look()
	defer g.unlock()
	return g.table.pools[pool].escrow.State(now).Slots
}

// adaptivePool is one of which a limit between 4 and 200 is found.
func adaptivePool() Pool {
	return Pool{Name: "p", Concurrency: 200, Adaptive: adaptive.Gradient, MinConcurrency: 4, MaxQueue: 1000}
}

// A tenant floods a pool with twice what its upstream can do, and comes back at once when it
// is refused; three ask for a little less than their shares. The limit finds the upstream's
// 20 slots although most of what is asked for is refused, and the polite have what they ask
// for. Elsewhere such refusals lowered the limit to 1, and the loud one had 96 % of the grants.
func TestAdaptive_LoudAndPolite(t *testing.T) {
	testkit.Long(t, "simulates half an hour")
	synctest.Test(t, func(t *testing.T) {
		const slots = 20
		cfg := Config{Pools: []Pool{adaptivePool()}, Tenants: []Tenant{{Name: "loud", Weight: 1}}}
		for _, name := range []string{"a", "b", "c"} {
			cfg.Tenants = append(cfg.Tenants, Tenant{Name: name, Weight: 1, MaxWait: 10 * time.Second})
		}
		g := must(t, cfg)
		ctx, stop := context.WithCancel(t.Context())
		upstream := make(server, slots)
		var wg sync.WaitGroup
		var mu sync.Mutex
		grants := map[string]int{}
		refused := map[string]int{}
		least := int64(math.MaxInt64)
		counting := false
		ask := func(name string, r *rand.Rand) {
			l, rej := g.Acquire(ctx, Request{Tenant: name, Pool: "p", Model: "m", Input: 100, Output: 4000, Stream: true})
			mu.Lock()
			if counting && rej != nil {
				refused[name]++
			} else if counting {
				grants[name]++
				least = min(least, g.slotsOf("p"))
			}
			mu.Unlock()
			if rej != nil {
				time.Sleep(100 * time.Millisecond)
				return
			}
			upstream.serve(l, true, 100*time.Millisecond, time.Duration(math.Min(10, r.ExpFloat64())*3*float64(time.Second)), 100)
		}
		for i, workers := range map[string]int{"loud": 40, "a": 4, "b": 4, "c": 4} {
			for n := range workers {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(n), uint64(i[0])))
					for ctx.Err() == nil {
						ask(i, r)
					}
				})
			}
		}
		time.Sleep(5 * time.Minute)
		mu.Lock()
		counting = true
		mu.Unlock()
		time.Sleep(20 * time.Minute)
		stop()
		wg.Wait()
		all := grants["loud"] + grants["a"] + grants["b"] + grants["c"]
		t.Logf("granted %v, refused %v, least limit %d", grants, refused, least)
		if want := 20 * 60 * slots / 3.1; float64(all) < 0.9*want {
			t.Errorf("%d calls were served, the upstream can do %.0f", all, want)
		}
		if least < 13 {
			t.Errorf("the limit fell to %d, of %d", least, slots)
		}
		if refused["loud"] < all {
			t.Errorf("only %d calls were refused", refused["loud"])
		}
		if part := float64(grants["loud"]) / float64(all); part > 0.5 {
			t.Errorf("the loud one has %.0f %% of the grants", 100*part)
		}
	})
}

// What a pool learns from, and what not: the first token of streams, whole answers by their length,
// refusals of the upstream. An error of the caller's, calls that name no model, that were not
// sent, or that are charged and no calls, teach nothing.
func TestAdaptive_LearnsFromCallsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{Pools: []Pool{adaptivePool()}, Tenants: []Tenant{{Name: "a", Weight: 1}}})
		p := g.table.pools["p"]
		take := func(req Request) Lease {
			req.Tenant = "a"
			req.Pool = "p"
			l := admitted(t, g, req)
			time.Sleep(time.Second)
			return l
		}
		for range 20 {
			take(Request{}).Settle(Usage{Output: 10})
			take(Request{Model: "m"}).Release()
			take(Request{Model: "m"}).Settle(Usage{})
			take(Request{Model: "m", Forced: true}).Charge(Usage{Output: 10})
		}
		if fresh := adaptive.NewFleet(adaptive.Config{Law: adaptive.Gradient, Min: 4, Max: 200}); !reflect.DeepEqual(p.slots.Limiter, fresh) {
			t.Fatalf("what is no call has taught something: %+v", p.slots.Limiter)
		}
		for range 60 {
			take(Request{Model: "m"}).Settle(Usage{Output: 10})
		}
		if g.slotsOf("p") != 4 {
			t.Errorf("one call at a time has moved the limit to %d", g.slotsOf("p"))
		}
		var leases []Lease
		for range 4 {
			leases = append(leases, take(Request{Model: "m"}))
		}
		if _, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m"})); rej == nil || rej.Limit != 4 || rej.Reason != ReasonConcurrency {
			t.Errorf("a fifth call is refused by %+v, want a limit of 4", rej)
		}
		if st := g.Standing("a", "p"); st.Concurrent.Limit != 4 || st.Concurrent.Remaining != 0 {
			t.Errorf("the tenant stands at %+v, want 0 left of 4", st.Concurrent)
		}
		for _, l := range leases {
			l.Settle(Usage{Output: 10})
		}
	})
}

// One tenant's calls do not lower the limit by being late while those of others are served; those of two do, or of one alone. Refusals do,
// and others that give up deny nothing.
func TestAdaptive_OverloadOfOne(t *testing.T) {
	settle := func(l Lease) { l.Settle(Usage{Output: 10}) }
	for name, c := range map[string]struct {
		late, others []string
		fails, ends  func(Lease)
		lower        bool
	}{
		"one, beside others":      {[]string{"a", "a/x", "a/y"}, []string{"b"}, Lease.Late, settle, false},
		"one alone":               {[]string{"a"}, nil, Lease.Late, settle, true},
		"one, served as often":    {[]string{"a"}, []string{"a"}, Lease.Late, settle, true},
		"two":                     {[]string{"a", "b"}, []string{"a", "b"}, Lease.Late, settle, true},
		"two, beside a third":     {[]string{"a", "b/x"}, []string{"c"}, Lease.Late, settle, true},
		"one, beside who give up": {[]string{"a"}, []string{"b"}, Lease.Late, func(l Lease) { l.Break(Usage{Output: 10}) }, true},
		"one's are refused":       {[]string{"a", "a/x"}, []string{"b"}, Lease.Overloaded, settle, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Pools: []Pool{adaptivePool()}}
				for _, name := range []string{"a", "a/x", "a/y", "b", "b/x", "c"} {
					cfg.Tenants = append(cfg.Tenants, Tenant{Name: name, Weight: 1})
				}
				g := must(t, cfg)
				g.table.pools["p"].resume(time.Now(), 100)
				call := func(tenant string) Lease {
					l := admitted(t, g, Request{Tenant: tenant, Pool: "p", Model: "m"})
					time.Sleep(time.Second)
					return l
				}
				for i := range 60 {
					if n := len(c.others); n > 0 {
						c.ends(call(c.others[i%n]))
					}
					l := call(c.late[i%len(c.late)])
					c.fails(l)
					l.Release()
				}
				if limit := g.slotsOf("p"); (limit < 90) != c.lower {
					t.Errorf("the limit is %d, and was 100", limit)
				}
			})
		})
	}
}

// A limit that becomes adaptive begins at what runs, not at its least, to which all would
// have to come to their end first.
func TestAdaptive_BeginsAtWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Pools: []Pool{adaptivePool()}, Tenants: []Tenant{{Name: "a", Weight: 1}}}
		pool := &cfg.Pools[0]
		law := pool.Adaptive
		pool.Adaptive = adaptive.Fixed
		pool.MinConcurrency = 0
		pool.Concurrency = 64
		g := must(t, cfg)
		for range 20 {
			admitted(t, g, Request{Tenant: "a", Pool: "p", Model: "m"})
		}
		pool.Adaptive = law
		pool.MinConcurrency = 2
		testkit.OK(t, g.Apply(cfg))
		if got := g.slotsOf("p"); got != 20 {
			t.Errorf("with 20 calls in flight the limit begins at %d", got)
		}
	})
}

// A reload moves the bounds and keeps what was found; who waits goes when it rises. A refusal of
// the upstream lowers it.
func TestAdaptive_Reload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Pools: []Pool{adaptivePool()}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Minute}}}
		cfg.Pools[0].MinConcurrency = 40
		g := must(t, cfg)
		with := func(change func(*Pool)) {
			t.Helper()
			change(&cfg.Pools[0])
			testkit.OK(t, g.Apply(cfg))
		}
		expect := func(want int64) {
			t.Helper()
			if got := g.slotsOf("p"); got != want {
				t.Fatalf("the limit is %d, want %d", got, want)
			}
		}
		expect(40)
		with(func(p *Pool) { p.MinConcurrency = 2 })
		expect(40)
		with(func(p *Pool) {
			p.Adaptive = adaptive.AIMD
			p.TPM = 1_000_000
		})
		expect(40)
		with(func(p *Pool) { p.Concurrency = 30 })
		expect(30)
		g.Throttle("p", []Cut{{TPM: 10, Until: time.Now().Add(time.Minute)}}) // which changes limits
		expect(30)
		for range 9 {
			l, _ := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m"})
			l.Retried()
			l.Overloaded() // by which of them?
			expect(30)
			l.Release()
		}
		for _, want := range []int64{30, 30, 24} { // three in a row
			l, _ := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m"})
			l.Overloaded()
			expect(want)
			l.Overloaded() // of one call once
			expect(want)
			l.Release()
			l.Overloaded() // too late
			expect(want)
		}

		var wg sync.WaitGroup
		var leases []Lease
		for range 24 {
			l, _ := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m"})
			leases = append(leases, l)
		}
		wg.Go(func() {
			l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m"}))
			if rej != nil {
				t.Errorf("who waits for a limit that rises is refused: %v", rej)
			}
			l.Release()
		})
		synctest.Wait()
		if _, waiting := g.Leases(); waiting != 1 {
			t.Fatalf("%d calls wait, want 1", waiting)
		}
		with(func(p *Pool) { p.MinConcurrency = 26 })
		wg.Wait()
		expect(26)
		for _, l := range leases {
			l.Release()
		}
		with(func(p *Pool) {
			p.Adaptive = adaptive.Fixed
			p.MinConcurrency = 0
		})
		expect(30)
		with(func(p *Pool) {
			p.Adaptive = adaptive.Gradient
			p.MinConcurrency = 3
		})
		expect(3)
		cfg.Pools[0].MinConcurrency = 31
		if err := g.Apply(cfg); err == nil {
			t.Error("a least limit of 31, of 30, was taken")
		}
	})
}

// TestAdaptive_BackgroundAlone: calls of a batch alone raise the limit, beside a reserve.
func TestAdaptive_BackgroundAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", Concurrency: 64, Adaptive: adaptive.Gradient, MinConcurrency: 4, InteractiveReserve: 8, MaxQueue: 1000}},
			Tenants: []Tenant{{Name: "batch", Weight: 1, MaxWait: time.Hour, Background: true}},
		})
		end := time.Now().Add(3 * time.Minute)
		upstream := make(server, 200)
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				for time.Now().Before(end) {
					l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "batch", Pool: "p", Model: "m", Input: 100, Output: 1000, Stream: true}))
					if rej != nil {
						t.Error(rej)
						return
					}
					upstream.serve(l, true, 100*time.Millisecond, time.Second, 100)
				}
			})
		}
		time.Sleep(150 * time.Second)
		if n := g.slotsOf("p"); n < 48 {
			t.Errorf("the limit is %d, and nothing waits upstream", n)
		}
		calls.Wait()
	})
}

// TestAdaptive_SharedWait: how long a call will wait for a slot goes by the limit that was found, not by what it may become.
func TestAdaptive_SharedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := map[int64]time.Duration{}
		for _, most := range []int64{4, 400} {
			p := Pool{Name: "p", Concurrency: most, Adaptive: adaptive.Gradient, MinConcurrency: 4, MaxQueue: 1000}
			if most == 4 {
				p.Adaptive = adaptive.Fixed
				p.MinConcurrency = 0
			}
			g := must(t, Config{Shared: true, SharedSlots: true, SharedLimits: true, Pools: []Pool{p}, Tenants: []Tenant{{Name: "a", Weight: 1}}})
			s := g.SharedSlots()[0]
			s.Claim(time.Now())
			allow := func() { s.Allow(time.Now(), time.Now().Add(time.Hour), &slots.Grant{Slots: 4}, nil) }
			allow()
			var leases []Lease
			for range 2 {
				for range 4 {
					l := admitted(t, g, Request{Tenant: "a", Pool: "p", Model: "m"})
					leases = append(leases, l)
				}
				if len(leases) > 4 {
					break
				}
				time.Sleep(10 * time.Second)
				for _, l := range leases {
					l.Settle(Usage{Output: 1})
				}
			}
			_, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m"}))
			wait[most] = rej.RetryAfter
			for _, l := range leases[4:] {
				l.Settle(Usage{Output: 1})
			}
		}
		if wait[400] < wait[4]/2 {
			t.Errorf("with a limit of 4 calls are told to wait %v, with one that may become 400 %v", wait[4], wait[400])
		}
	})
}

// TestAdaptive_AfterARestart: a process goes on with the limit that the one before it saved, within its own bounds.
func TestAdaptive_AfterARestart(t *testing.T) {
	cfg := Config{Pools: []Pool{adaptivePool()}, Tenants: []Tenant{{Name: "a", Weight: 1}}}
	before := must(t, cfg)
	before.table.pools["p"].resume(time.Now(), 48)
	past := record.NewPast(time.Now(), nil)
	past.Saved = before.Saved()
	for _, c := range []struct{ most, want int64 }{{200, 48}, {40, 40}} {
		cfg.Pools[0].Concurrency = c.most
		cfg.Past = past
		after := must(t, cfg)
		if got := after.slotsOf("p"); got != c.want {
			t.Errorf("the limit was 48, and with at most %d it is %d after a restart, want %d", c.most, got, c.want)
		}
		if got := past.State().Past(time.Now(), nil).Limits["p"]; got != 48 {
			t.Errorf("a replay begins with %d, want 48", got)
		}
	}
}
