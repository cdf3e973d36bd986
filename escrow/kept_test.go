package escrow

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Who comes back when told queues with the tag that was kept, also where nobody else
// of its leaf waits.
//
// Catches: a place that is redeemed and then moved to virtual time like any newcomer.
func TestI8_ThePlaceIsKeptWhereNobodyElseWaits(t *testing.T) {
	now := t0
	p := New(now, Config{TPM: 60_000, MaxQueue: 100, TicketWait: 10 * time.Second})
	a := p.Add(Root, Node{Weight: WeightOne})
	b := p.Add(Root, Node{Weight: WeightOne})
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
	own := p.nodes[b].over(p.virtualCost(1000, 1, 0))
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
	leaf := p.Add(Root, Node{Weight: WeightOne})
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
	leaf := p.Add(Root, Node{Weight: WeightOne})
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
			leaf := p.Add(Root, Node{Weight: WeightOne})
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
	leaf := p.Add(Root, Node{Weight: WeightOne})
	p.axes[Tokens].pace.level = -1 // so that it is refused
	if _, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{1000, 1}}); !ans.Ticket {
		t.Fatalf("%+v", ans)
	}
	nd := &p.nodes[leaf]
	nd.finish += nd.over(nd.promised)
	nd.passed += nd.over(nd.promised)
	p.Update(leaf, Node{Weight: WeightOne / 2})
	if nd.passed != nd.over(nd.promised) {
		t.Errorf("I8: %d goes back, the place is worth %d", nd.passed, nd.over(nd.promised))
	}
}
