package escrow

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAllowance_Envelope: a shared pool never hands out more than its allowances say, and
// what calls give back is not handed out again.
func TestAllowance_Envelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := t0
		p := New(now, Config{TPM: 600_000, MaxQueue: 100, Shared: true})
		leaf := p.Add(Root, Node{Weight: WeightOne})
		var a Allowance
		spent := func() int64 { return p.Spent(Tokens) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				a = Allowance{
					Since: now, Until: now.Add(time.Duration(rapid.IntRange(0, 2500).Draw(t, "left")) * time.Millisecond),
					Level: int64(rapid.IntRange(-500, 3000).Draw(t, "level")), Rate: int64(rapid.IntRange(0, 600_000).Draw(t, "rate")),
					Spent: spent(),
				}
				p.Allow(now, Tokens, a)
			} else {
				p.Offer(now, Call{Leaf: leaf, Most: Cost{int64(rapid.IntRange(1, 2000).Draw(t, "cost")), 1}, MaxWait: time.Hour})
			}
			before := spent()
			for _, h := range p.Pump(now, nil) {
				p.Settle(now, h, Cost{}) // gives all back
			}
			may := a.Level + a.Rate*int64(now.Sub(a.Since)/time.Microsecond)/windowMicros
			if took := spent() - before; took > 0 && (!now.Before(a.Until) || spent()-a.Spent > may) {
				t.Fatalf("at %v: %d spent since the allowance %+v, which is %d by now", now.Sub(t0), spent()-a.Spent, a, may)
			}
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAllowance_Needed: a shared pool without an allowance hands out nothing, lets calls
// wait, and a new allowance lets them go.
func TestAllowance_Needed(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10, Shared: true})
	leaf := p.Add(Root, Node{Weight: WeightOne})
	h, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, MaxWait: 5 * time.Second})
	if ans.Verdict != Queued {
		t.Fatalf("got %+v, want the call to wait for an allowance", ans)
	}
	if got := p.Pump(t0.Add(time.Second), nil); len(got) > 0 {
		t.Fatal("a call went without an allowance")
	}
	at := t0.Add(2 * time.Second)
	p.Allow(at, Tokens, Allowance{Since: at, Until: at.Add(time.Second), Level: 100})
	if got := p.Pump(at, nil); len(got) != 1 || got[0] != h {
		t.Fatalf("got %v, want the call that waits to go", got)
	}
	p.Settle(at, h, Cost{150, 1})
	if _, left := p.Allowed(at, Tokens); left != -50 {
		t.Errorf("after 150 of 100 are used there is %d left, want -50", left)
	}
}

// TestAllowance_LargeCall: in a shared pool a call larger than the burst waits for all that
// it takes: a debt would be another process's.
func TestAllowance_LargeCall(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10, Shared: true}) // a burst of a second: 1000
	leaf := p.Add(Root, Node{Weight: WeightOne})
	p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(time.Minute), Level: 2000, Rate: 60_000})
	_, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{5000, 1}, MaxWait: time.Hour})
	if ans.Verdict != Queued {
		t.Fatalf("got %+v for a call of 5000 with 2000 allowed, want it to wait", ans)
	}
	if got := p.Pump(t0.Add(2900*time.Millisecond), nil); len(got) > 0 {
		t.Fatal("a call went before its allowance was there")
	}
	if got := p.Pump(t0.Add(3*time.Second), nil); len(got) != 1 {
		t.Fatalf("got %v, want the call to go as 5000 are allowed", got)
	}
}

// TestShare: a share scales what weighs and what is owed, and is undone whole.
func TestShare(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10})
	a := p.Add(Root, Node{Weight: 3 * WeightOne, Floor: 1000})
	p.Share(a, 250_000)
	if got := p.nodes[a]; got.weight != 750 || got.floor != 250 {
		t.Errorf("a quarter of weight 3 and a floor of 1000 is %d and %d", got.weight, got.floor)
	}
	p.Update(a, Node{Weight: 2 * WeightOne})
	if got := p.nodes[a].weight; got != 500 {
		t.Errorf("a quarter of weight 2 is %d", got)
	}
	p.Share(a, shareWhole)
	if got := p.Node(a).Node; got.Weight != 2*WeightOne || p.nodes[a].weight != 2*WeightOne {
		t.Errorf("the whole of weight 2 is %+v", got)
	}
}
