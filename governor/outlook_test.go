package governor

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow"
)

// What is explained is what happens: a call gets the refusal that was foretold, or
// goes if none was; and to ask changes nothing.
func TestExplain_IsWhatHappens(t *testing.T) {
	cfg := small()
	cfg.Pools[0].TicketWait = 0 // whose place is kept is not foretold
	var foretold []string
	asked := walkTeams(t, cfg, func(g *Governor, _ int, req Request) {
		o, ok := g.Explain(req)
		if !ok || len(o.Checks) == 0 || o.Wait != 0 {
			t.Errorf("%s in %s: %+v", req.Tenant, req.Pool, o)
		}
		foretold = append(foretold, fmt.Sprint(o.Refused))
	})
	if diff := cmp.Diff(foretold, asked); diff != "" {
		t.Errorf("what was foretold did not happen (-foretold +happened):\n%s", diff)
	}
	unasked := walkTeams(t, cfg, func(g *Governor, _ int, req Request) {
		// The books are brought up to date by whoever asks.
		at := g.table.Load().find(&req)
		at.pool.mu.Lock()
		defer at.pool.mu.Unlock()
		at.pool.escrow.Foretell(g.clock.Now(), escrow.Call{Leaf: at.access.seat.leaf, Most: escrow.Cost{1, 1}})
	})
	if diff := cmp.Diff(unasked, asked); diff != "" {
		t.Errorf("to ask changed what happened (-unasked +asked):\n%s", diff)
	}
}

// Of a call that would wait it is told how long, and each limit says what it has.
func TestExplain_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "org", Weight: 1000, RPM: 1},
				{Name: "org/x", Weight: 1000, MaxWait: time.Hour, InPool: map[string]Limits{"p": {TPM: 500}}},
				{Name: "b", Weight: 1000, MaxWait: 10 * time.Second},
			},
		})
		l, _ := g.Acquire(t.Context(), demand("org/x", 400))
		l.Settle(Usage{Output: 400})
		time.Sleep(20 * time.Second)
		o, ok := g.Explain(demand("org/x", 9000))
		if !ok || o.Refused != nil || o.Wait < 40*time.Second || o.Wait > 41*time.Second {
			t.Errorf("%+v", o)
		}
		var got []string
		for _, c := range o.Checks {
			got = append(got, fmt.Sprintf("%s|%s|%s %d/%d+%d", c.Tenant, c.Pool, c.Axis, c.Used, c.Limit, c.Asked))
		}
		want := []string{"org/x|p|tokens 400/500+500", "org||requests 1/1+1", "|p|tokens 400/60000+9000"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		var wg sync.WaitGroup
		wg.Go(func() { // a pool that refills at 1000 tokens a second
			if l, rej := g.Acquire(t.Context(), demand("b", 3000)); rej == nil {
				l.Settle(Usage{Output: 3000})
			}
		})
		synctest.Wait()
		if o, _ := g.Explain(demand("b", 2000)); o.Refused != nil || o.Wait < 2*time.Second || o.Wait > 6*time.Second {
			t.Errorf("behind others: %+v", o)
		}
		req := demand("b", 2000)
		patience := time.Second
		req.MaxWait = &patience
		if o, _ := g.Explain(req); o.Refused == nil || o.Refused.RetryAfter < 2*time.Second {
			t.Errorf("beyond its patience: %+v", o)
		}
		wg.Wait()
		if _, ok := g.Explain(demand("nobody", 1)); ok {
			t.Error("it explains what nobody would get")
		}
	})
}
