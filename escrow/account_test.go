package escrow

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// TestAccount: each thing that can become of a call, and where it is told.
func TestAccount(t *testing.T) {
	const tpm = 60_000
	p := New(t0, Config{TPM: tpm, MaxQueue: 1, TicketWait: 10 * time.Second})
	a := p.Add(Root, Node{Weight: WeightOne})
	b := p.Add(Root, Node{Weight: WeightOne})
	want := func(what string, leaf NodeID, received, waiting, turned int64) {
		t.Helper()
		got := p.Account(leaf)
		for _, x := range []struct {
			name      string
			got, want int64
		}{{"received", got.Received, received}, {"waiting", got.Waiting, waiting}, {"turned", got.Turned, turned}} {
			if got := p.TokensOf(x.got); got < x.want || got > x.want+3 { // each call is rounded up
				t.Errorf("%s: %s is %d tokens, want %d", what, x.name, got, x.want)
			}
		}
	}
	offer := func(leaf NodeID, tokens int64, maxWait time.Duration, retry Retry) (Handle, Answer) {
		return p.Offer(t0, Call{Leaf: leaf, Most: Cost{tokens, 1}, MaxWait: maxWait, Claim: Claim{Retry: retry}})
	}

	h, _ := offer(a, 900, 0, RetryUnknown)
	want("a call runs", a, 900, 0, 0)
	p.Settle(t0, h, Cost{700, 1})
	want("it took less", a, 700, 0, 0)
	h, _ = offer(a, 200, 0, RetryUnknown)
	p.Settle(t0, h, Cost{5000, 1})
	want("another took more", a, 5700, 0, 0)
	if got := p.Account(a).Debt; got != 0 {
		t.Errorf("in an idle pool there is a debt of %d", got)
	}

	for _, leaf := range []NodeID{a, b} {
		h = p.Force(t0, Call{Leaf: leaf, Most: Cost{100, 1}}, true)
	}
	p.Settle(t0, p.handle(0), Cost{4100, 1}) // the other keeps the pool from being idle
	want("of two, one took more", a, 9800, 0, 0)
	if a, b := p.TokensOf(p.Account(a).Debt), p.TokensOf(p.Account(b).Debt); a < 4000 || a > 4110 || b > 110 {
		t.Errorf("who took 4100 instead of 100 has a debt of %d, the other of %d", a, b)
	}
	q, _ := offer(b, 400, time.Minute, RetryUnknown)
	want("a call waits", b, 100, 400, 0)
	if _, ans := offer(b, 300, 0, RetryUnknown); !ans.Ticket {
		t.Fatalf("no place was kept: %+v", ans)
	}
	want("a place is kept", b, 100, 700, 0)
	if _, ans := offer(b, 500, 0, RetryFirst); ans.Ticket || ans.Verdict == Admitted {
		t.Fatalf("a place was kept: %+v", ans)
	}
	want("a call is turned away", b, 100, 700, 500)
	offer(b, 500, 0, RetryAgain)
	want("and tries again", b, 100, 700, 500)
	p.Cancel(t0, q)
	p.Settle(t0, h, Cost{100, 1})
	want("who waits goes away", b, 100, 300, 900)

	p.State(t0.Add(time.Hour))
	want("nobody comes back to the place", b, 100, 0, 1200)
	if !p.Remove(t0.Add(time.Hour), b) {
		t.Fatal("the leaf cannot be removed")
	}
	if c := p.Add(Root, Node{Weight: WeightOne}); c != b {
		t.Fatalf("the leaf's number was not used again: %d", c)
	}
	want("who comes after it", b, 0, 0, 0)
}

// TestUnused: a pool that is pumped leaves next to nothing unused while calls wait,
// and one whose owner forgets to, all of its rate but for the first second and call.
func TestUnused(t *testing.T) {
	for seed := range uint64(testkit.Rounds(9, 24)) {
		limit := []int64{30_000, 600_000, 6_000_000}[seed%3]
		cfg := Config{TPM: limit, Burst: []time.Duration{0, 10, 30}[seed/3%3] * time.Second, MaxQueue: 100_000, Accounting: Accounting(seed / 9 % 3)}
		w := newWorld(t, seed, cfg, 1000, 3000)
		size := limit / 600
		for _, p := range w.tenants {
			p.cost = func(r *rand.Rand) int64 { return 1 + r.Int64N(2*size) }
			if seed%2 == 0 {
				p.actual = func(declared int64) int64 { return declared / 2 }
			}
		}
		for i := range 10 {
			for _, p := range w.tenants {
				p.workers = 4 * (i % 2) // a minute of calls that wait, and one of none
			}
			w.run(Window)
		}
		if got := float64(w.pool.Unused(w.now)) / float64(5*limit); got > 0.01 {
			t.Errorf("seed %d: %.2f %% of pool %+v were not handed out while calls waited", seed, 100*got, cfg)
		}
	}
}

// A pool that nobody asks anything of for a while has nothing unused.
func TestUnused_Idle(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: WeightOne})
	p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}})
	if got := p.Unused(t0.Add(time.Hour)); got != 0 {
		t.Errorf("%d tokens are unused after an idle hour", got)
	}
}

func TestUnused_NobodyPumps(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(p *Pool)
		want int64 // tokens, of 1000 a second
	}{
		{"calls wait", func(*Pool) {}, 30_000 - 1000 - 2000},
		{"nothing is handed out", func(p *Pool) { p.Throttle(t0, WholePace, t0.Add(time.Hour)) }, 0},
		{"half of the rate is", func(p *Pool) { p.Throttle(t0, WholePace/2, time.Time{}) }, 15_000 - 1000 - 2000},
	} {
		p := New(t0, Config{TPM: 60_000, MaxQueue: 10})
		leaf := p.Add(Root, Node{Weight: WeightOne})
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{900, 1}})
		c.do(p)
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{2000, 1}, MaxWait: time.Hour})
		p.Pump(t0, nil)
		for i := range 3000 {
			p.State(t0.Add(time.Duration(i+1) * 10 * time.Millisecond))
		}
		got := p.Unused(t0.Add(30 * time.Second))
		if fmt.Sprint(got/1500) != fmt.Sprint(c.want/1500) {
			t.Errorf("%s: %d tokens are unused after 30 s, want some %d", c.what, got, c.want)
		}
	}
}
