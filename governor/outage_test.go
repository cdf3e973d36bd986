package governor

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// outageConfig has a tenant that waits long, for the pool or for its own limit.
func outageConfig() Config {
	cfg := sharedConfig()
	cfg.Tenants = []Tenant{
		{Name: "waits", Weight: 1, MaxWait: 10 * time.Minute},
		{Name: "narrow", Weight: 1, MaxWait: 10 * time.Minute, RPM: 1},
	}
	return cfg
}

// refusedOf lets tenants call, and returns when each was refused, and why.
type refusedOf struct {
	group sync.WaitGroup
	mu    sync.Mutex
	list  []*Refusal
}

func (r *refusedOf) call(t *testing.T, g *Governor, tenant string, n int) {
	for range n {
		r.group.Go(func() {
			lease, rej := Refused(g.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Input: 100}))
			lease.Settle(Usage{Input: 100})
			if rej == nil {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.list = append(r.list, rej)
		})
	}
}

// Calls that wait in a pool's queue, or in their tenant's own line, are refused in the instant in which the
// pool can admit nothing more, also if its speaker still waits for an answer.
func TestOutage_RefusesCallsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := shared(t, outageConfig())
		allow(s, 200)
		var refused refusedOf
		refused.call(t, g, "waits", 9)
		refused.call(t, g, "narrow", 3)
		refused.group.Wait()
		if len(refused.list) != 10 {
			t.Errorf("%d of 12 were refused, want all but 2", len(refused.list))
		}
		for _, rej := range refused.list {
			if rej.Reason != ReasonStoreLost || rej.Waited != GrantLasts || rej.RetryAfter != refusal.LossRetry || rej.Own {
				t.Errorf("after %v refused with %v: %v", rej.Waited, rej.Reason, rej)
			}
		}
	})
}

// A call that comes to a pool that is cut off is refused at once, however long it may wait. It goes again as
// soon as there is a grant.
func TestOutage_RefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := shared(t, outageConfig())
		allow(s, 0)
		time.Sleep(GrantLasts)
		synctest.Wait()
		_, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "waits", Pool: "p", Input: 100}))
		if rej == nil || rej.Reason != ReasonStoreLost || rej.Waited != 0 || rej.RetryAfter != refusal.LossRetry {
			t.Errorf("got %+v", rej)
		}
		if o, _ := g.Explain(Request{Tenant: "waits", Pool: "p", Input: 100}); o.Refused == nil || o.Refused.Reason != ReasonStoreLost {
			t.Errorf("explained as %+v", o.Refused)
		}
		if !g.CutOff() {
			t.Error("the governor does not say that it is cut off")
		}
		allow(s, 1000)
		lease, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "waits", Pool: "p", Input: 100}))
		if rej != nil || g.CutOff() {
			t.Errorf("with a grant: %v, cut off: %v", rej, g.CutOff())
		}
		lease.Settle(Usage{Input: 100})
	})
}

// An outage ends when the pool's limits go: nobody asks for them any more, so nothing else would end it.
func TestOutage_EndsWithItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := outageConfig()
		g, s := shared(t, cfg)
		allow(s, 0)
		time.Sleep(GrantLasts)
		synctest.Wait()
		if !g.CutOff() {
			t.Fatal("it is not cut off")
		}
		cfg.Pools[0].TPM = 0
		cfg.Pools[0].RPM = 0
		cfg.Pools[0].Concurrency = 0
		testkit.OK(t, g.Apply(cfg))
		lease, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "waits", Pool: "p", Input: 100}))
		if rej != nil || g.CutOff() {
			t.Errorf("without limits: %v, cut off: %v", rej, g.CutOff())
		}
		lease.Settle(Usage{Input: 100})
	})
}

// Calls wait while the store answers, even if it grants nothing because it is new: its grants are due
// soon. They do not wait for what comes later than they may wait, nor once it answers no more.
func TestOutage_CallsWaitForAStoreThatLearns(t *testing.T) {
	for _, c := range []struct {
		name    string
		learns  time.Duration
		expect  int
		waits   time.Duration
		promise time.Duration
	}{
		{name: "until its end", learns: 4 * time.Second, waits: 4 * time.Second},
		{name: "not for a later end", learns: 90 * time.Second, promise: 90 * time.Second},
		{name: "not once it is lost", learns: 50 * time.Second, waits: GrantLasts, promise: refusal.LossRetry},
		{name: "for nodes", learns: 90 * time.Second, expect: 3, waits: GrantLasts, promise: refusal.LossRetry},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			cfg := outageConfig()
			cfg.Pools[0].ExpectNodes = c.expect
			g, s := shared(t, cfg)
			began := time.Now()
			answered := func() { // as a speaker tells that the store is learning
				demanded(s)
				s.Allow(time.Now(), PoolGrant{})
				s.Learns(began.Add(c.learns), false)
				s.Alone(time.Now(), 2)
			}
			answered()
			if c.waits == c.learns {
				time.AfterFunc(2*time.Second, answered)
				time.AfterFunc(c.learns, func() { allow(s, 1000) })
			} else {
				time.AfterFunc(GrantLasts, func() { s.Alone(time.Now(), 2) })
			}
			wait := time.Minute
			lease, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "waits", Pool: "p", Input: 100, MaxWait: &wait}))
			if waited := time.Since(began); waited != c.waits || (rej != nil) != (c.promise > 0) {
				t.Fatalf("waited %v: %v", waited, rej)
			}
			if rej != nil && (rej.Reason != ReasonStoreLost || rej.RetryAfter != c.promise) {
				t.Errorf("%v promises %v, want %v", rej.Reason, rej.RetryAfter, c.promise)
			}
			lease.Settle(Usage{Input: 100})
		})
	}
}

// A pool that allows itself a part while it is cut off lets calls wait for it.
func TestOutage_NoneWhileAPoolHelpsItself(t *testing.T) {
	for _, rule := range []OnLoss{LossLocal, LossOpen} {
		synctest.Test(t, func(t *testing.T) {
			cfg := outageConfig()
			cfg.Pools[0].OnLoss = rule
			cfg.Pools[0].LocalPPM = 500_000
			cfg.Pools[0].ExpectNodes = 1
			g, s := shared(t, cfg)
			allow(s, 0)
			time.AfterFunc(GrantLasts+100*time.Millisecond, func() { s.Alone(time.Now(), 1) })
			var refused refusedOf
			refused.call(t, g, "waits", 3)
			refused.group.Wait()
			if len(refused.list) > 0 || g.CutOff() {
				t.Errorf("refused %v, cut off: %v", refused.list, g.CutOff())
			}
		})
	}
}

// A pool whose slots alone are shared refuses calls that wait as soon as its grant of slots has expired.
func TestOutage_OfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := outageConfig()
		cfg.Pools = []Pool{{Name: "p", Concurrency: 8, MaxQueue: 100}}
		cfg.SharedSlots = true
		cfg.SharedLimits = true
		g := must(t, cfg)
		shared := g.SharedSlots()[0]
		began := time.Now()
		shared.Allow(began, began.Add(GrantLasts), &slots.Grant{Slots: 1}, nil)
		running, _ := g.Acquire(t.Context(), Request{Tenant: "waits", Pool: "p"})
		time.AfterFunc(GrantLasts, func() { shared.Alone(time.Now()) })
		_, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "waits", Pool: "p"}))
		if rej == nil || rej.Reason != ReasonStoreLost || rej.Waited != GrantLasts || !g.CutOff() {
			t.Errorf("got %+v, cut off: %v", rej, g.CutOff())
		}
		running.Settle(Usage{})
		shared.Allow(time.Now(), time.Now().Add(GrantLasts), &slots.Grant{Slots: 1}, nil)
		lease, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "waits", Pool: "p"}))
		if rej != nil || g.CutOff() {
			t.Errorf("with a grant: %v, cut off: %v", rej, g.CutOff())
		}
		lease.Settle(Usage{})
	})
}

// TestNewStore: a refusal says of a store that grants nothing yet why that is, and what to do, while it is so.
func TestNewStore(t *testing.T) {
	for _, c := range []struct {
		expect int
		forgot bool
		want   string
	}{
		{want: "The store is new: it has no data of llmgov. Pool p grants nothing for a minute, because other gateways may have used its limits in the last minute. " +
			"If this is the only gateway, set expect_nodes: 1 in the pool, or stop it and run: llmgov store new."},
		{expect: 2, want: "The store is new: it has no data of llmgov. Pool p grants nothing until 2 gateways (expect_nodes) have reported, or for a minute, " +
			"because other gateways may have used its limits in the last minute."},
		{forgot: true, want: "The store has lost data. Pool p grants nothing for a minute, because other gateways may have used its limits in the last minute. " +
			"With expect_nodes set to the number of gateways it takes seconds."},
		{expect: 2, forgot: true, want: "The store has lost data. Pool p grants nothing until 2 gateways (expect_nodes) have reported, or for a minute, " +
			"because other gateways may have used its limits in the last minute."},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := sharedConfig()
			cfg.Pools[0].ExpectNodes = c.expect
			g, s := shared(t, cfg)
			s.Learns(time.Now().Add(45*time.Second), c.forgot)
			_, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "x", Pool: "p", Input: 700}))
			if rej == nil || !strings.HasPrefix(rej.Error(), c.want+" Please try again in ") {
				t.Errorf("the refusal says %v, want %s", rej, c.want)
			}
			if got := g.NewStore("p").Countdown("p", time.Now().Add(500*time.Millisecond)); got != c.want+" At most 45 s are left." {
				t.Errorf("the countdown says %s", got)
			}
			time.Sleep(GrantLasts)
			if g.NewStore("p") != nil || g.NewStore("none") != nil {
				t.Error("a store that does not answer is taken for a new one")
			}
		})
	}
}
