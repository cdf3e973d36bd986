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

// What remains of a call is what calls of its kind have taught: by how long they run
// where slots are limited, else by what they produce; it shrinks as the call goes on,
// and is nothing when it has ended.
func TestRemaining(t *testing.T) {
	for _, slots := range []int64{0, 8} {
		synctest.Test(t, func(t *testing.T) {
			g := must(t, Config{
				Pools:   []Pool{{Name: "p", TPM: 10_000_000, Concurrency: slots, MaxQueue: 10}},
				Tenants: []Tenant{{Name: "a", Weight: 1000}},
			})
			req := demand("a", 1000)
			near := func(what string, got, want time.Duration) {
				t.Helper()
				if got < want*9/10 || got > want*11/10 {
					t.Errorf("slots %d: %s %v remain, want about %v", slots, what, got, want)
				}
			}
			if o, _ := g.Explain(req); o.Run != 0 {
				t.Errorf("slots %d: a call of which nothing is known is to run for %v", slots, o.Run)
			}
			l, _ := g.Acquire(t.Context(), demand("a", 200)) // at 50 a second
			began := time.Now()
			for age, want := range []time.Duration{0, time.Second, 2 * time.Second, time.Second} {
				time.Sleep(time.Duration(age)*time.Second - time.Since(began))
				near("of a call of 4 s at most of which nothing is known, as long again", l.Remaining(), want)
			}
			l.Release()
			for range 60 { // 400 tokens in 4 s
				l, _ := g.Acquire(t.Context(), req)
				time.Sleep(4 * time.Second)
				l.Settle(Usage{Output: 400})
			}
			o, _ := g.Explain(req)
			near("of a call that did not begin", o.Run, 4*time.Second)
			l, _ = g.Acquire(t.Context(), req)
			near("of one that begins", l.Remaining(), 4*time.Second)
			time.Sleep(time.Second)
			near("of a plain one after 1 s", l.Remaining(), 3*time.Second)
			if slots == 0 {
				l.Progress(200) // in 1 s: it is faster than others
				near("of a stream with 200 of 400 tokens", l.Remaining(), time.Second)
			}
			l.Settle(Usage{Output: 400})
			if got := (Lease{}).Remaining() + l.Remaining(); got != 0 {
				t.Errorf("slots %d: %v remain of what has ended", slots, got)
			}
		})
	}
}
