package governor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
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
		l, rej := g.Acquire(t.Context(), demand("a", 8_000))
		if rej != nil || l.Upstream() != "ptu" {
			t.Fatalf("at %q, %v", l.Upstream(), rej)
		}
		second, rej := g.Acquire(t.Context(), demand("a", 4_000))
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
			l, rej := g.Acquire(context.Background(), req)
			if rej != nil {
				t.Error(rej)
			}
			got <- l.Upstream()
		}()
		synctest.Wait()
		list := cfg.Pools[0].Upstreams
		cfg.Pools[0].Upstreams = []Upstream{list[1], {Name: "new", TPM: 10}, list[0]}
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		if filled.Upstream() != "ptu" {
			t.Errorf("a running call is at %q", filled.Upstream())
		}
		filled.Settle(Usage{})
		if at := <-got; at != "paid" || time.Since(began) != 30*time.Second {
			t.Errorf("it went to %q after %v, want paid, after the cut of 30 s", at, time.Since(began))
		}
		cfg.Pools[0].Upstreams = nil
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		if l, rej := g.Acquire(t.Context(), demand("a", 50_000)); rej != nil || l.Upstream() != "" {
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
			if err := g.Apply(cfg); err != nil {
				t.Fatal(err)
			}
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
			if err := g.Apply(cfg); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
		}
		cfg.Pools[0].Upstreams = both
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		if u := g.Upstreams("p")[0]; u.Calls != 0 {
			t.Errorf("%+v is remembered", u)
		}
	})
}
