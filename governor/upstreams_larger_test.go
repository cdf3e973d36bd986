package governor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// placed is the name of the upstream where a call goes, in a pool that has been idle.
func placed(t *testing.T, cfg Config, req Request) (name string) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, cfg)
		time.Sleep(time.Minute)
		l, rej := g.Acquire(t.Context(), req)
		if rej != nil {
			t.Error(rej)
		}
		name = l.Upstream()
		l.Settle(Usage{})
	})
	return name
}

// A call that is larger than an upstream's tokens a minute goes to another one that it may use, whichever comes first. If it is
// larger than all, it goes to the largest.
func TestUpstreams_Larger(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := twoUpstreams()
		cfg.Pools[0].Upstreams = nil
		limits := rapid.SliceOfN(rapid.SampledFrom([]int64{0, 1_000, 5_000, 20_000, 80_000}), 1, 5).Draw(r, "limits")
		for i, tpm := range limits {
			order := rapid.Int64Range(0, 2).Draw(r, "order")
			cfg.Pools[0].Upstreams = append(cfg.Pools[0].Upstreams, Upstream{Name: fmt.Sprint(i), Weight: 1, Order: order, TPM: tpm})
		}
		req := demand("a", rapid.Int64Range(1, 100_000).Draw(r, "tokens"))
		req.Via = rapid.Uint64Range(1, 1<<len(limits)-1).Draw(r, "via")
		at := placed(t, cfg, req)
		takes := func(i int) int64 {
			if limits[i] == 0 {
				return req.Output
			}
			return min(limits[i], req.Output)
		}
		there := int64(-1)
		most := int64(0)
		for i := range limits {
			if req.Via&(1<<i) == 0 {
				continue
			}
			most = max(most, takes(i))
			if at == fmt.Sprint(i) {
				there = takes(i)
			}
		}
		if there != most {
			r.Fatalf("a call of %d tokens is at %q of %v, via %b", req.Output, at, limits, req.Via)
		}
	})
}

// A call that broke off goes on at no upstream that is too small for it, even if all others are full.
func TestUpstreams_LargerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoUpstreams())
		time.Sleep(time.Minute)
		l, rej := g.Acquire(t.Context(), demand("a", 20_000))
		if rej != nil || l.Upstream() != "paid" {
			t.Fatalf("at %q, %v", l.Upstream(), rej)
		}
		if name, ok := l.Move([]string{"ptu"}, Usage{}, true); ok {
			t.Errorf("moved to %q, which has less in a minute", name)
		}
	})
}

// What is said of a call that is asked about goes by the upstreams that it may use.
func TestUpstreams_Explained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoUpstreams())
		time.Sleep(time.Minute)
		req := demand("a", 8_000)
		if o, ok := g.Explain(req); !ok || o.Refused != nil || o.Wait != 0 {
			t.Errorf("with both idle: %+v", o)
		}
		l, _ := g.Acquire(t.Context(), req)
		defer l.Settle(Usage{})
		req.Via = 0b01
		if o, ok := g.Explain(req); !ok || o.Refused != nil || o.Wait == 0 {
			t.Errorf("with its only one full: %+v", o)
		}
	})
}

// A call that is refused because its upstreams are full is not told that its pool is slow.
func TestUpstreams_RefusedByUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoUpstreams())
		time.Sleep(time.Minute)
		req := demand("a", 8_000)
		req.Via = 0b01
		l, _ := g.Acquire(t.Context(), req)
		defer l.Settle(Usage{})
		now := time.Duration(0)
		req.MaxWait = &now
		_, rej := g.Acquire(t.Context(), req)
		const want = "Requested 8000. The pool has room, but the upstreams to which this call may go have none. Please try again in "
		if rej == nil || !strings.Contains(rej.Error(), want) {
			t.Errorf("it is told %v", rej)
		}
	})
}
