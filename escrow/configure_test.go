package escrow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// A limit that changes under a flood changes what passes, and nothing else: what was
// used stays used, who waits waits on, and shares are kept. Catches: a new ledger
// for the new limit (used falls to 0); the pace left as it was (a lowered limit is
// exceeded); costs not weighed anew (a call above the new limit blocks for ever).
func TestConfigureUnderLoad(t *testing.T) {
	w := newWorld(t, 1, Config{TPM: 600_000, RPM: 6000, Burst: 10 * time.Second, MaxQueue: 1000}, 2, 1)
	for _, p := range w.tenants {
		p.workers = 16
	}
	w.run(3 * Window)
	for _, limit := range []int64{60_000, 1_200_000, 600_000} {
		before := w.pool.State(w.now)
		w.pool.Configure(w.now, Config{TPM: limit, RPM: 6000, Burst: 10 * time.Second, MaxQueue: 1000})
		if after := w.pool.State(w.now); after.Axes[Tokens].Used != before.Axes[Tokens].Used || after.Waiting != before.Waiting {
			t.Fatalf("limit %d: %d used and %d waiting, before it was %d and %d", limit,
				after.Axes[Tokens].Used, after.Waiting, before.Axes[Tokens].Used, before.Waiting)
		}
		testkit.OK(t, w.pool.Check())
		w.run(2 * Window)
		from := w.now
		w.log = nil
		w.run(5 * Window)
		got := w.received(from)
		least := 0.99
		if limit < 100_000 { // calls of up to a seventh of it
			least = 0.94
		}
		util := (got[0] + got[1]) / 5 / float64(limit)
		t.Logf("limit %d: %.4f of it used, shares %.3f to 1", limit, util, got[0]/got[1])
		if util < least || w.rollingMax() > limit {
			t.Errorf("limit %d: %.4f of it used, the fullest minute has %d", limit, util, w.rollingMax())
		}
		if r := got[0] / got[1]; r < 1.8 || r > 2.2 {
			t.Errorf("limit %d: shares of %.3f to 1, want 2 to 1", limit, r)
		}
	}
}

// Another rule of accounting begins with what was used under the old one, and with
// all that running calls may still take. Catches: a fresh axis that inherits
// nothing; a running call that settles in books which it is not in.
func TestConfigureAccounting(t *testing.T) {
	for from := AdmitMax; from <= Settled; from++ {
		for to := AdmitMax; to <= Settled; to++ {
			p := New(t0, Config{TPM: 60_000, Burst: time.Minute, Accounting: from, MaxQueue: 10})
			leaf := p.Add(Root, Node{Weight: 1})
			now := t0.Add(5 * time.Minute)
			done, _ := p.Offer(now, Call{Leaf: leaf, Most: Cost{10_000, 1}})
			p.Settle(now, done, Cost{8000, 1})
			runs, _ := p.Offer(now, Call{Leaf: leaf, Most: Cost{20_000, 1}, Input: 5000, Speed: 100})
			now = now.Add(10 * time.Second)
			p.Configure(now, Config{TPM: 60_000, Burst: time.Minute, Accounting: to, MaxQueue: 10})
			used := p.State(now).Axes[Tokens].Used
			if from != to && (used < 28_000 || used > 28_050) {
				t.Errorf("%d → %d: %d tokens count, want 8000 used and 20000 that may come", from, to, used)
			}
			if !p.Settle(now, runs, Cost{6000, 1}) {
				t.Errorf("%d → %d: the running call is gone", from, to)
			}
			if err := p.Check(); err != nil {
				t.Errorf("%d → %d: %v", from, to, err)
			}
			now = now.Add(2 * Window)
			if p.State(now).Axes[Tokens].Used != 0 {
				t.Errorf("%d → %d: something counts for ever", from, to)
			}
		}
	}
}

// What waits, and would never fit a limit that was lowered, still goes in its turn.
func TestConfigureLetsLargeCallsGo(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: 1})
	p.Offer(t0, Call{Leaf: leaf, Most: Cost{50_000, 1}})
	h, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{50_000, 1}, MaxWait: time.Hour})
	if ans.Verdict != Queued {
		t.Fatal(ans)
	}
	p.Configure(t0, Config{TPM: 6000, MaxQueue: 10})
	for now := t0; now.Before(t0.Add(15 * Window)); now = now.Add(time.Second) {
		if out := p.Pump(now, nil); len(out) == 1 && out[0] == h {
			return
		}
	}
	t.Error("a call that waited when the limit was lowered never went")
}

// Who comes back when told queues with the tag that was kept, also where nobody else
// of its leaf waits.
//
// Catches: a place that is redeemed and then moved to virtual time like any newcomer.
func TestI8_ThePlaceIsKeptWhereNobodyElseWaits(t *testing.T) {
	now := t0
	p := New(now, Config{TPM: 60_000, MaxQueue: 100, TicketWait: 10 * time.Second})
	a := p.Add(Root, Node{Weight: 1})
	b := p.Add(Root, Node{Weight: 1})
	for range 60 {
		p.Offer(now, Call{Leaf: a, Most: Cost{1000, 1}, MaxWait: time.Hour})
		p.Pump(now, nil)
	}
	_, ans := p.Offer(now, Call{Leaf: b, Most: Cost{1000, 1}})
	if !ans.Ticket {
		t.Fatalf("%+v", ans)
	}
	kept := p.nodes[b].finish
	for end := now.Add(ans.Wait + 3*time.Second); now.Before(end); now = now.Add(10 * time.Millisecond) {
		p.Pump(now, nil)
	}
	_, back := p.Offer(now, Call{Leaf: b, Most: Cost{1000, 1}})
	if back.Verdict != Queued {
		t.Fatalf("%+v", back)
	}
	in := p.nodes[Root].inner
	own := p.nodes[b].over(p.virtualCost(Cost{1000, 1}, 0))
	if got, want := p.nodes[b].finish, max(kept, p.virtualOf(in)-own); got > want {
		t.Errorf("I8: back at tag %d, want at most %d: the kept place %d, by no more than its own cost before virtual time %d", got, want, kept, p.virtualOf(in))
	}
}

// A call that waits is weighed anew by what it asked for, not by what was left of
// that under the limit before.
//
// Catches: an expectation that was cut to a small limit and stays cut.
func TestConfigureWeighsWhatWasAsked(t *testing.T) {
	cfg := Config{TPM: 100, Accounting: Production, MaxQueue: 10}
	p := New(t0, cfg)
	leaf := p.Add(Root, Node{Weight: 1})
	p.axes[Tokens].pace.level = -1 // so that it waits
	h, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{5000, 1}, Expect: 3000, Input: 2000, MaxWait: time.Hour})
	if ans.Verdict != Queued {
		t.Fatalf("%+v", ans)
	}
	cfg.TPM = 60_000
	p.Configure(t0, cfg)
	if got := p.CostOf(int(h.Slot))[Tokens]; got != 3000 {
		t.Errorf("booked at %d tokens, asked for 3000", got)
	}
	if got := p.entries[h.Slot].input; got != 2000 {
		t.Errorf("%d tokens count at once, asked for 2000", got)
	}
}

// A call that takes just what was expected moves no tag as it ends, even if the limits
// changed while it ran.
//
// Catches: a charge in parts of one limit, settled in parts of another.
func TestConfigureOwesNothingForWhatWasExpected(t *testing.T) {
	cfg := Config{TPM: 60_000, MaxQueue: 10}
	p := New(t0, cfg)
	leaf := p.Add(Root, Node{Weight: 1})
	h, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{1000, 1}})
	if ans.Verdict != Admitted {
		t.Fatalf("%+v", ans)
	}
	before := p.nodes[leaf].finish
	cfg.TPM = 6_000
	p.Configure(t0, cfg)
	p.Settle(t0, h, Cost{1000, 1})
	if d := p.nodes[leaf].finish - before; d != 0 {
		t.Errorf("owes %.1f %% of a minute for a call that was as expected", 100*float64(d)/float64(tagUnit))
	}
}

// A ledger that stops counting what comes from elsewhere takes nothing back.
func TestBookAtTheBound(t *testing.T) {
	l := NewLedger(t0, 1, 60)
	l.BookAt(t0, maxBooked)
	l.Book(1)
	l.BookAt(t0.Add(-time.Second), 5)
	if err := l.check(Tokens); err != nil {
		t.Error(err)
	}
}

// Configure changes which of equal tags goes first, for many nodes at once.
func TestConfigureKeepsTheHeapsInOrder(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{TPM: 60_000, RPM: 6000, MaxQueue: 1000}
		p := New(t0, cfg)
		p.axes[Tokens].pace.level = -1
		for range 40 {
			leaf := p.Add(Root, Node{Weight: 1})
			p.Offer(t0, Call{Leaf: leaf, Most: Cost{rng.Int64N(1000), rng.Int64N(1000)}, MaxWait: time.Hour})
		}
		cfg.TPM = 600_000
		cfg.RPM = 60
		p.Configure(t0, cfg)
		if err := p.Check(); err != nil {
			t.Fatal(seed, err)
		}
	}
}

// A kept place is worth what its call costs, whatever becomes of the weight.
//
// Catches: a tag that is moved to the new weight while what goes back of it is not.
func TestI8_ThePlaceKeepsItsWorthAsWeightsChange(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 100, TicketWait: 10 * time.Second})
	leaf := p.Add(Root, Node{Weight: 1})
	p.axes[Tokens].pace.level = -1 // so that it is refused
	if _, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{1000, 1}}); !ans.Ticket {
		t.Fatalf("%+v", ans)
	}
	nd := &p.nodes[leaf]
	nd.finish += nd.over(nd.promised)
	nd.passed += nd.over(nd.promised)
	p.Update(leaf, Node{Weight: 0.5})
	if nd.passed != nd.over(nd.promised) {
		t.Errorf("I8: %d goes back, the place is worth %d", nd.passed, nd.over(nd.promised))
	}
}

// A limit of few requests a minute hands out its rate though another limit changes all the time. Catches: the part of a request by which the
// level has risen lost with each change.
func TestConfigureOften(t *testing.T) {
	cfg := Config{TPM: 60_000, RPM: 60, MaxQueue: 10}
	p := New(t0, cfg)
	leaf := p.Add(Root, Node{Weight: 1})
	admitted := 0
	for now := t0; now.Before(t0.Add(Window / 2)); now = now.Add(50 * time.Millisecond) {
		if now.Sub(t0)%(250*time.Millisecond) == 0 {
			cfg.TPM ^= 1
			p.Configure(now, cfg)
		}
		if _, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{10, 1}}); ans.Verdict == Admitted {
			admitted++
		}
	}
	if admitted < 28 || admitted > 31 {
		t.Errorf("%d calls are admitted in half a minute of 60 a minute", admitted)
	}
}
