package governor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/testkit"
)

func twoUpstreams() Config {
	return Config{
		Pools: []Pool{{
			Name: "p", TPM: 4_000_000, Burst: time.Minute, MaxQueue: 100,
			Upstreams: []Upstream{{Name: "ptu", Weight: 1, TPM: 10_000, Concurrency: 3}, {Name: "paid", Weight: 1, Order: 1, TPM: 30_000}},
		}},
		Tenants: []Tenant{{Name: "a", Weight: 1000, MaxWait: 5 * time.Minute}},
	}
}

// use is the tokens in use of a pool's upstreams.
func use(g *Governor) (list []int64) {
	for _, u := range g.Upstreams("p") {
		list = append(list, u.Used.TPM)
	}
	return list
}

// A call goes to the first upstream that has room, may move to another one with room, and leaves in each what it took there.
func TestUpstreams_Move(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoUpstreams())
		time.Sleep(time.Minute)
		l, rej := Rejected(g.Acquire(t.Context(), demand("a", 8_000)))
		if rej != nil || l.Upstream() != "ptu" {
			t.Fatalf("at %q, %v", l.Upstream(), rej)
		}
		second, rej := Rejected(g.Acquire(t.Context(), demand("a", 4_000)))
		if rej != nil || second.Upstream() != "paid" {
			t.Fatalf("at %q, %v; the first has no room", second.Upstream(), rej)
		}
		if name, ok := second.Move([]string{"ptu"}, Usage{}, false); ok || second.Upstream() != "paid" {
			t.Errorf("moved to %q, which has no room", name)
		}
		if name, ok := l.Move([]string{"paid"}, Usage{Output: 500}, true); !ok || name != "paid" || l.Upstream() != "paid" {
			t.Errorf("moved to %q, %v", name, ok)
		}
		if u := use(g); u[0] != 500 || u[1] != 12_000 {
			t.Errorf("used %v, want 500 where it broke off and 12,000", u)
		}
		l.Settle(Usage{Output: 1_500}) // 500 of these in vain
		if u := use(g); u[0] != 500 || u[1] != 5_000 {
			t.Errorf("used %v at the end, want 500 and 5,000", u)
		}
		if l.Upstream() != "" || l.Settle(Usage{}) {
			t.Error("an ended lease is still somewhere")
		}
	})
}

// Calls that wait keep their upstreams, whatever place these have in another configuration; a cut of one closes that one alone.
func TestUpstreams_Apply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := twoUpstreams()
		g := must(t, cfg)
		time.Sleep(time.Minute)
		filled, _ := g.Acquire(t.Context(), demand("a", 9_000))
		g.Throttle("p", []Cut{{Part: Whole / 2, Upstream: "paid", Until: time.Now().Add(30 * time.Second)}})
		got := make(chan string, 1)
		began := time.Now()
		go func() {
			req := demand("a", 2_000)
			req.Via = 0b10
			l, rej := Rejected(g.Acquire(context.Background(), req))
			if rej != nil {
				t.Error(rej)
			}
			got <- l.Upstream()
		}()
		synctest.Wait()
		list := cfg.Pools[0].Upstreams
		cfg.Pools[0].Upstreams = []Upstream{list[1], {Name: "new", TPM: 10}, list[0]}
		testkit.OK(t, g.Apply(cfg))
		if filled.Upstream() != "ptu" {
			t.Errorf("a running call is at %q", filled.Upstream())
		}
		filled.Settle(Usage{})
		if at := <-got; at != "paid" || time.Since(began) != 30*time.Second {
			t.Errorf("it went to %q after %v, want paid, after the cut of 30 s", at, time.Since(began))
		}
		cfg.Pools[0].Upstreams = nil
		testkit.OK(t, g.Apply(cfg))
		if l, rej := Rejected(g.Acquire(t.Context(), demand("a", 50_000))); rej != nil || l.Upstream() != "" {
			t.Errorf("without upstreams it is at %q, %v", l.Upstream(), rej)
		}
	})
}

// A restart forgets no usage: nobody knows at which upstream the last minute was, so it counts at each.
func TestUpstreams_Restart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := NewPast(time.Now(), time.UTC)
		began := time.Now()
		cfg := twoUpstreams()
		cfg.Past = past
		past.ended = append(past.ended, Record{Pool: "p", Tenant: "a", Began: began, Ended: began.Add(time.Second)})
		past.ended[0].Booked.Pool[0] = 7_000
		past.ended[0].Took.Pool[0] = 7_000
		time.Sleep(2 * time.Second)
		g := must(t, cfg)
		if u := use(g); u[0] != 7_000 || u[1] != 7_000 {
			t.Errorf("used %v, want 7,000 of each", u)
		}
	})
}

// An upstream that leaves the configuration and comes back has not forgotten what was used of it, nor which calls still run there.
func TestUpstreams_ComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := twoUpstreams()
		both := cfg.Pools[0].Upstreams
		g := must(t, cfg)
		time.Sleep(time.Minute)
		ended, _ := g.Acquire(t.Context(), demand("a", 5_000))
		ended.Settle(Usage{Output: 5_000})
		running, _ := g.Acquire(t.Context(), demand("a", 1_000))
		for _, list := range [][]Upstream{both[1:], both} {
			cfg.Pools[0].Upstreams = list
			testkit.OK(t, g.Apply(cfg))
		}
		if u := g.Upstreams("p")[0].Used; u.TPM != 6_000 || u.Concurrency != 1 {
			t.Errorf("%+v is used, want 6,000 tokens, and one call", u)
		}
		running.Settle(Usage{Output: 1_000})
		if u := g.Upstreams("p")[0].Used; u.TPM != 6_000 || u.Concurrency != 0 {
			t.Errorf("%+v is used at the end, want 6,000 tokens, and no call", u)
		}
		cfg.Pools[0].Upstreams = both[1:]
		for range 2 { // it is forgotten when it has been away for long
			testkit.OK(t, g.Apply(cfg))
			time.Sleep(5 * time.Minute)
		}
		cfg.Pools[0].Upstreams = both
		testkit.OK(t, g.Apply(cfg))
		if u := g.Upstreams("p")[0]; u.Calls != 0 {
			t.Errorf("%+v is remembered", u)
		}
	})
}

// placed is the name of the upstream where a call goes, in a pool that has been idle.
func placed(t *testing.T, cfg Config, req Request) (name string) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, cfg)
		time.Sleep(time.Minute)
		l, rej := Rejected(g.Acquire(t.Context(), req))
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
		l, rej := Rejected(g.Acquire(t.Context(), demand("a", 20_000)))
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
		_, rej := Rejected(g.Acquire(t.Context(), req))
		const want = "Requested 8000. The pool has room, but the upstreams to which this call may go have none. Please try again in "
		if rej == nil || !strings.Contains(rej.Error(), want) {
			t.Errorf("it is told %v", rej)
		}
	})
}
