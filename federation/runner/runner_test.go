package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// network is the way to a store: so long there and so long back, or nowhere.
type network struct {
	runner.Store
	delay time.Duration
	cut   atomic.Bool // what is sent is lost, and is waited for
	down  atomic.Bool // it is refused at once
	sent  atomic.Int64
}

func (n *network) Beat(ctx context.Context, pool string, b *federation.Beat) (federation.Reply, error) {
	n.sent.Add(1)
	if n.down.Load() {
		return federation.Reply{}, errors.New("connection refused")
	}
	if n.cut.Load() {
		<-ctx.Done()
		return federation.Reply{}, ctx.Err()
	}
	time.Sleep(n.delay)
	r, err := n.Store.Beat(ctx, pool, b)
	time.Sleep(n.delay)
	if n.cut.Load() {
		<-ctx.Done()
		return federation.Reply{}, ctx.Err()
	}
	return r, err
}

func (n *network) Look(ctx context.Context, pool string) (federation.View, error) {
	answer := time.NewTimer(2 * n.delay)
	defer answer.Stop()
	select {
	case <-ctx.Done():
		return federation.View{}, ctx.Err()
	case <-answer.C:
		return n.Store.Look(ctx, pool)
	}
}

// site is one process: its governor, its runner and its way to the store.
type site struct {
	gov *governor.Governor
	run *runner.Runner
	net *network
	// leave ends it.
	leave context.CancelFunc
}

const limit = 600_000

func config(maxWait time.Duration) governor.Config {
	return governor.Config{
		Shared: true,
		Pools:  []governor.Pool{{Name: "p", TPM: limit, Burst: 10 * time.Second, MaxQueue: 10_000}, {Name: "slots", Concurrency: 3}},
		Tenants: []governor.Tenant{
			{Name: "a", Weight: 1, MaxWait: maxWait},
			{Name: "b", Weight: 3, MaxWait: maxWait},
		},
	}
}

// world is a number of sites on one store, in virtual time.
type world struct {
	t     *testing.T
	sites []*site
	ctx   context.Context
	stop  context.CancelFunc
	group sync.WaitGroup

	mu   sync.Mutex
	used []use
}

type use struct {
	at     time.Time
	site   *site
	tenant string
	cost   int64
}

func newWorld(t *testing.T, store runner.Store, maxWait time.Duration, delays ...time.Duration) *world {
	return newWorldOf(t, store, config(maxWait), delays...)
}

func newWorldOf(t *testing.T, store runner.Store, cfg governor.Config, delays ...time.Duration) *world {
	w := &world{t: t}
	w.ctx, w.stop = context.WithCancel(context.Background())
	t.Cleanup(w.end)
	for _, d := range delays {
		w.join(store, cfg, d)
	}
	for _, s := range w.sites {
		<-s.run.First()
	}
	return w
}

// join begins another site.
func (w *world) join(store runner.Store, cfg governor.Config, delay time.Duration) *site {
	gov := testkit.Must(governor.New(cfg))(w.t)
	i := len(w.sites)
	s := &site{gov: gov, net: &network{Store: store, delay: delay}}
	s.run = runner.New(runner.Config{
		Name: fmt.Sprint("n", i), Region: fmt.Sprint("r", i), Instance: fmt.Sprint("i", i), Store: s.net, Pools: poolsOf(gov),
	})
	w.sites = append(w.sites, s)
	ctx, leave := context.WithCancel(w.ctx)
	s.leave = leave
	w.group.Go(func() {
		if err := s.run.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	return s
}

func poolsOf(g *governor.Governor) func() []runner.Pool { return sharing.New(g).Pools }

func (w *world) end() {
	w.stop()
	w.group.Wait()
}

// call is one call of so many tokens, which ends at once.
func (w *world) call(s *site, tenant string, tokens int64) *governor.Refusal {
	l, rej := governor.Refused(s.gov.Acquire(context.Background(), governor.Request{Tenant: tenant, Pool: "p", Input: tokens}))
	if rej != nil {
		return rej
	}
	w.mu.Lock()
	w.used = append(w.used, use{time.Now(), s, tenant, tokens})
	w.mu.Unlock()
	l.Settle(governor.Usage{Input: tokens})
	return nil
}

// flood asks at all sites for so long, with so many callers of each tenant.
func (w *world) flood(d time.Duration, callers int) { w.floodAt(w.sites, d, callers) }

func (w *world) floodAt(sites []*site, d time.Duration, callers int) {
	var group sync.WaitGroup
	end := time.Now().Add(d)
	for _, s := range sites {
		for _, tenant := range []string{"a", "b"} {
			for i := range callers {
				group.Go(func() {
					for n := 0; time.Now().Before(end); n++ {
						w.call(s, tenant, int64(300+(i*37+n*101)%900))
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
		}
	}
	group.Wait()
}

// peak is the most of any rolling minute.
func (w *world) peak() int64 {
	sum := int64(0)
	most := int64(0)
	from := 0
	for _, u := range w.used {
		for sum += u.cost; !w.used[from].at.After(u.at.Add(-escrow.Window)); from++ {
			sum -= w.used[from].cost
		}
		most = max(most, sum)
	}
	return most
}

// between is what was used from one time until another, and the part of b in it.
func (w *world) between(from, to time.Time) (sum int64, share float64) {
	of := map[string]int64{}
	for _, u := range w.used {
		if u.at.After(from) && !u.at.After(to) {
			of[u.tenant] += u.cost
		}
	}
	sum = of["a"] + of["b"]
	return sum, float64(of["b"]) / float64(max(1, sum))
}

// TestRun: three governors, each of which has the whole limit in its configuration,
// together use it once, and share it by weight.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Config{Fresh: true}), 10*time.Second, time.Millisecond, 18*time.Millisecond, 35*time.Millisecond)
		began := time.Now()
		w.flood(3*time.Minute, 12)
		used, share := w.between(began.Add(time.Minute), began.Add(3*time.Minute))
		t.Logf("%.4f of the limit, share %.4f, peak %.4f", float64(used)/2/limit, share, float64(w.peak())/limit)
		if peak := w.peak(); peak > limit {
			t.Errorf("a rolling minute used %d of %d", peak, limit)
		}
		if used < 2*limit*97/100 {
			t.Errorf("only %d of %d were used in two minutes", used, 2*limit)
		}
		if share < 0.73 || share > 0.77 {
			t.Errorf("the tenant of weight 3 beside one of weight 1 got %.3f", share)
		}
	})
}

// TestRun_Partition: a node that is cut off uses what it was granted and then nothing, its
// calls are refused for that reason; the others go on, and it comes back.
func TestRun_Partition(t *testing.T) {
	for _, how := range []string{"silent", "refused"} {
		testkit.Virtual(t, how, func(t *testing.T) {
			w := newWorld(t, memory.New(memory.Config{Fresh: true}), 0, 5*time.Millisecond, 5*time.Millisecond)
			far := w.sites[1]
			bad := &far.net.cut
			if how == "refused" {
				bad = &far.net.down
			}
			w.flood(time.Minute, 4)
			bad.Store(true)
			w.flood(20*time.Second, 4)
			rej := w.call(far, "a", 500)
			if rej == nil || rej.Reason != governor.ReasonStoreLost || rej.RetryAfter < time.Second {
				t.Errorf("cut off for 20 s, a call got %+v", rej)
			}
			if mode := far.gov.Degraded("p"); mode != "closed" {
				t.Errorf("the mode is %q", mode)
			}
			if far.run.Up() || !w.sites[0].run.Up() {
				t.Error("the wrong store is down")
			}
			if mode := far.gov.Degraded("slots"); mode != "" {
				t.Errorf("a pool without limits to share is %q", mode)
			}
			sent := far.net.sent.Load()
			time.Sleep(20 * time.Second)
			if n := far.net.sent.Load() - sent; n > 17 {
				t.Errorf("%d beats in 20 s to a store that does not answer", n)
			}
			bad.Store(false)
			time.Sleep(4 * time.Second)
			if rej := w.call(far, "a", 500); rej != nil {
				t.Errorf("four seconds after the store is back: %v", rej)
			}
			w.flood(time.Minute, 4)
			if peak := w.peak(); peak > limit {
				t.Errorf("a rolling minute used %d of %d", peak, limit)
			}
		})
	}
}

// TestRun_Alone: nodes that are cut off use what their configuration has for that: of a
// part that is withheld, together no more than it is, and with it no more than the limit.
func TestRun_Alone(t *testing.T) {
	for _, rule := range []governor.OnLoss{governor.LossLocal, governor.LossOpen} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(0)
			cfg.Pools[0].OnLoss = rule
			mode := "open"
			if rule == governor.LossLocal {
				cfg.Pools[0].LocalPPM = 200_000
				mode = "local"
			}
			w := newWorldOf(t, memory.New(memory.Config{Fresh: true}), cfg, time.Millisecond, time.Millisecond)
			began := time.Now()
			w.flood(70*time.Second, 3)
			used, _ := w.between(began.Add(10*time.Second), time.Now())
			t.Logf("%s: %.3f of the limit together", mode, float64(used)/limit)
			if rule == governor.LossLocal && (used > limit*8/10 || used < limit*76/100) {
				t.Errorf("with a fifth withheld, %d of %d were used in a minute", used, limit)
			}
			for _, s := range w.sites {
				s.net.cut.Store(true)
			}
			w.flood(2*time.Minute, 3)
			if got := w.sites[0].gov.Degraded("p"); got != mode {
				t.Errorf("the mode is %q, want %q", got, mode)
			}
			used, _ = w.between(time.Now().Add(-time.Minute), time.Now())
			t.Logf("%s: %.3f of the limit alone, peak %.3f", mode, float64(used)/limit, float64(w.peak())/limit)
			switch {
			case rule == governor.LossLocal && (used > limit/5 || used < limit*18/100 || w.peak() > limit):
				t.Errorf("alone they used %d of %d, and %d in their largest minute", used, limit, w.peak())
			case rule == governor.LossOpen && used < limit*19/10:
				t.Errorf("alone and without a limit between them they used %d of %d", used, limit)
			}
			for _, s := range w.sites {
				s.net.cut.Store(false)
			}
			time.Sleep(4 * time.Second)
			if got := w.sites[0].gov.Degraded("p"); got != "" {
				t.Errorf("the mode is %q after the store is back", got)
			}
		})
	}
}

// TestRun_Slow: a store that hangs holds up no call, and no shutdown.
func TestRun_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Config{Fresh: true}), 0, time.Millisecond)
		w.sites[0].net.cut.Store(true)
		for range 200 {
			began := time.Now()
			w.call(w.sites[0], "a", 10)
			if d := time.Since(began); d > 0 {
				t.Fatalf("a call took %v", d)
			}
			time.Sleep(10 * time.Millisecond)
		}
		began := time.Now()
		w.end()
		if d := time.Since(began); d > time.Second {
			t.Errorf("the end took %v", d)
		}
	})
}

// TestRun_Learns: a store that knows nothing grants nothing for a minute, and calls are
// told when to come.
func TestRun_Learns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Config{}), 0, time.Millisecond)
		time.Sleep(5 * time.Second)
		rej := w.call(w.sites[0], "a", 10)
		if rej == nil || rej.Reason != governor.ReasonStoreLost || rej.RetryAfter < 57*time.Second || rej.RetryAfter > 60*time.Second {
			t.Fatalf("got %+v", rej)
		}
		if mode := w.sites[0].gov.Degraded("p"); mode != "learning" {
			t.Errorf("the mode is %q", mode)
		}
		time.Sleep(rej.RetryAfter + time.Second)
		if rej := w.call(w.sites[0], "a", 10); rej != nil {
			t.Errorf("who came back when told got %+v", rej)
		}
	})
}

// TestRun_Fenced: of two processes of one name the older one stops.
func TestRun_Fenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		old := newWorld(t, store, 0, time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		gov := testkit.Must(governor.New(config(0)))(t)
		young := runner.New(runner.Config{Name: "n0", Instance: "other", Store: store, Pools: poolsOf(gov)})
		old.group.Go(func() { _ = young.Run(ctx) })
		<-young.First()
		time.Sleep(2 * time.Second)
		if !old.sites[0].run.Fenced() || young.Fenced() {
			t.Error("the wrong one is fenced")
		}
		if rej := old.call(old.sites[0], "a", 10); rej == nil {
			t.Error("who is fenced has admitted a call")
		}
		if _, rej := governor.Refused(gov.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Input: 10})); rej != nil {
			t.Error(rej)
		}
	})
}

// TestRun_Address: others are told of each change of the address by the next beat.
func TestRun_Address(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		gov := testkit.Must(governor.New(config(0)))(t)
		var address atomic.Value
		run := runner.New(runner.Config{Name: "n", Instance: "i", Store: store, Pools: poolsOf(gov), Address: func() string { return address.Load().(string) }})
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer stop()
		for i, is := range []string{"10.0.0.1:9090", "leaving", ""} {
			address.Store(is)
			if i == 0 {
				group.Go(func() { _ = run.Run(ctx) })
			}
			time.Sleep(2 * time.Second)
			if v, err := store.Look(t.Context(), "p"); err != nil || len(v.Nodes) != 1 || v.Nodes[0].Address != is {
				t.Errorf("%+v, %v, want %q", v.Nodes, err, is)
			}
		}
	})
}

// rampTo is how long after a time some sites had a part of the limit for a second, for the
// first time.
func (w *world) rampTo(part float64, since time.Time, sites map[*site]bool) time.Duration {
	sum := int64(0)
	from := 0
	for i, u := range w.used {
		if sites[u.site] {
			sum += u.cost
		}
		for ; !w.used[from].at.After(u.at.Add(-time.Second)); from++ {
			if sites[w.used[from].site] {
				sum -= w.used[from].cost
			}
		}
		if u.at.Sub(since) >= time.Second && float64(sum) >= part*limit/60 && i > from {
			return u.at.Sub(since)
		}
	}
	return time.Hour
}

// TestRun_OneEightOne: one gateway becomes eight, and those one again. No rolling minute is
// above the limit, all of it is used but for what those held who went, and who comes has its
// part within seconds.
func TestRun_OneEightOne(t *testing.T) {
	testkit.Long(t, "simulates minutes of a fleet")
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		cfg := config(10 * time.Second)
		w := newWorldOf(t, store, cfg, 5*time.Millisecond)
		w.flood(90*time.Second, 40)
		came := map[*site]bool{}
		for i := range 7 {
			came[w.join(store, cfg, time.Duration(5+7*i)*time.Millisecond)] = true
		}
		eight := time.Now()
		w.flood(2*time.Minute, 12)
		ramp := w.rampTo(0.95*7/8, eight, came)
		used, _ := w.between(eight.Add(10*time.Second), eight.Add(2*time.Minute))
		t.Logf("from one to eight: the seven have their part after %v, and %.4f of the limit is used", ramp, float64(used)*60/110/limit)
		if ramp > 5*time.Second || used < limit*110/60*97/100 {
			t.Error("the ramp takes too long, or too little is used")
		}
		for s := range came {
			s.leave()
		}
		one := time.Now()
		w.floodAt(w.sites[:1], 2*time.Minute, 40)
		back := w.rampTo(0.95, one, map[*site]bool{w.sites[0]: true})
		used, _ = w.between(one.Add(10*time.Second), one.Add(2*time.Minute))
		t.Logf("from eight to one: it has the limit after %v, and %.4f of it is used; peak %.4f", back, float64(used)*60/110/limit, float64(w.peak())/limit)
		if back > 10*time.Second || used < limit*110/60*95/100 {
			t.Error("the ramp takes too long, or too little is used")
		}
		if w.peak() > limit {
			t.Errorf("a rolling minute used %d of %d", w.peak(), limit)
		}
	})
}

// TestRun_Reload: weights that change, at one gateway after the other, count from when all
// have them; a limit that is lowered at one of them counts for all.
func TestRun_Reload(t *testing.T) {
	testkit.Long(t, "simulates minutes of a fleet")
	synctest.Test(t, func(t *testing.T) {
		cfg := config(10 * time.Second)
		w := newWorldOf(t, memory.New(memory.Config{Fresh: true}), cfg, time.Millisecond, 18*time.Millisecond, 35*time.Millisecond)
		began := time.Now()
		w.flood(90*time.Second, 12)
		if _, share := w.between(began.Add(30*time.Second), began.Add(90*time.Second)); share < 0.73 || share > 0.77 {
			t.Errorf("weights 1 and 3: the latter has %.3f", share)
		}
		apply := func(change func(*governor.Config)) {
			cfg.Tenants = append([]governor.Tenant(nil), cfg.Tenants...)
			cfg.Pools = append([]governor.Pool(nil), cfg.Pools...)
			change(&cfg)
			for i, s := range w.sites {
				time.AfterFunc(time.Duration(i)*2*time.Second, func() {
					if err := s.gov.Apply(cfg); err != nil {
						t.Error(err)
					}
				})
			}
		}
		apply(func(c *governor.Config) { c.Tenants[1].Weight = 1 })
		began = time.Now()
		w.flood(30*time.Second, 12)
		if used, share := w.between(began.Add(10*time.Second), began.Add(30*time.Second)); share < 0.48 || share > 0.52 || used < limit/3*95/100 {
			t.Errorf("weights 1 and 1, 6 s to 26 s after all have them: %d used, the latter has %.3f", used, share)
		}
		if w.peak() > limit {
			t.Errorf("a rolling minute used %d of %d", w.peak(), limit)
		}
		apply(func(c *governor.Config) { c.Pools[0].TPM = limit / 2 })
		began = time.Now()
		w.flood(150*time.Second, 12)
		if used, _ := w.between(began.Add(90*time.Second), began.Add(150*time.Second)); used > limit/2 || used < limit/2*95/100 {
			t.Errorf("with half the limit %d of %d are used in a minute", used, limit/2)
		}
	})
}

// TestRun_Removed: what one gateway's configuration has no more counts for others for as
// long as something of it counts, and not after that; and that its last beat failed means
// nothing then.
func TestRun_Removed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(10 * time.Second)
		w := newWorldOf(t, memory.New(memory.Config{Fresh: true}), cfg, time.Millisecond, time.Millisecond, time.Millisecond)
		w.flood(20*time.Second, 12)
		w.sites[1].net.down.Store(true)
		time.Sleep(3 * time.Second)
		without := cfg
		twice := cfg
		without.Pools = cfg.Pools[1:]
		twice.Pools = append([]governor.Pool(nil), cfg.Pools...)
		twice.Pools[0].TPM = 2 * limit
		for i, c := range []governor.Config{without, without, twice} {
			testkit.OK(t, w.sites[i].gov.Apply(c))
		}
		if w.sites[1].run.Up() {
			t.Error("what was used of the pool can be told to nobody, and the store is up")
		}
		time.Sleep(65 * time.Second)
		sent := w.sites[0].net.sent.Load()
		began := time.Now()
		w.floodAt(w.sites[2:], 2*time.Minute, 40)
		if n := w.sites[0].net.sent.Load() - sent; n > 0 {
			t.Errorf("%d beats for a pool that is gone for a minute", n)
		}
		if used, _ := w.between(began.Add(time.Minute), began.Add(2*time.Minute)); used < 2*limit*95/100 {
			t.Errorf("%d of %d are used in a minute: the limit of who has the pool no more holds", used, 2*limit)
		}
		if !w.sites[1].run.Up() {
			t.Error("the store is down for a pool that is gone")
		}
	})
}

// TestRun_Far: of a store that takes a second to answer it is known as well who shares it,
// and no beat is late for that.
func TestRun_Far(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Config{Fresh: true}), 10*time.Second, 500*time.Millisecond, time.Millisecond)
		w.floodAt(w.sites[:1], 10*time.Second, 12)
		sent := w.sites[0].net.sent.Load()
		w.floodAt(w.sites[:1], time.Minute, 12)
		if s, _ := w.sites[0].run.State("p"); len(s.View.Nodes) != 2 {
			t.Errorf("after a minute the far one knows of %d nodes", len(s.View.Nodes))
		}
		if n := w.sites[0].net.sent.Load() - sent; n < 50 {
			t.Errorf("%d beats in a minute", n)
		}
	})
}
