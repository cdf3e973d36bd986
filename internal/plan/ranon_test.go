package plan

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
)

// A call that still runs when the log ends has done something until then, which is decided by again: it went on to another
// upstream, and produced fewer tokens than were expected of it.
func TestReplay_CallsThatRunOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := governor.Config{
			Pools: []governor.Pool{{
				Name: "p", TPM: 60_000, Accounting: escrow.Production,
				Upstreams: []governor.Upstream{{Name: "a", Weight: 1, Concurrency: 1}, {Name: "b", Weight: 1, Order: 1, Concurrency: 5}},
			}},
			Tenants: []governor.Tenant{{Name: "t", Weight: 1000}},
		}
		_, outcomes := recorded(t, cfg, func(g *governor.Governor) {
			time.Sleep(time.Minute)
			req := governor.Request{Tenant: "t", Pool: "p", Model: "m", Output: 100}
			runsOn, rej := g.Acquire(t.Context(), req)
			if rej != nil {
				t.Fatal(rej)
			}
			time.Sleep(time.Second)
			runsOn.Progress(10)
			runsOn.Move([]string{"b"}, governor.Usage{Output: 10}, true)
			time.Sleep(time.Second)
			req.Via = 0b01
			l, rej := g.Acquire(t.Context(), req)
			if rej != nil {
				t.Fatal(rej)
			}
			l.Settle(governor.Usage{Output: 10})
			time.Sleep(time.Second)
		})
		if outcomes[Admitted] != 2 {
			t.Errorf("%v, want two calls that went", outcomes)
		}
	})
}
