package escrow

import (
	"testing"
	"time"
)

// Whoever shares a limit out is told what the call that is next takes, and what the
// largest of late took, also where the pool has had no allowance for a while.
func TestShared_HeadAndLargest(t *testing.T) {
	p := New(t0, Config{TPM: 6_000_000, Burst: time.Minute, MaxQueue: 10, Shared: true})
	leaf := p.Add(Root, Node{Weight: WeightOne})
	offer := func(tokens int64) {
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{tokens, 1}, MaxWait: time.Hour})
	}
	offer(70_000)
	offer(30_000)
	p.Pump(t0, nil)
	if got := p.Head(); got != (Cost{70_000, 1}) {
		t.Errorf("the head takes %v, want 70,000 tokens", got)
	}
	p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(time.Hour), Level: 80_000})
	p.Pump(t0, nil)
	if got := p.Head(); got != (Cost{30_000, 1}) {
		t.Errorf("the head takes %v, want 30,000 tokens", got)
	}
	p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(time.Hour), Level: 80_000, Spent: 70_000})
	p.Pump(t0, nil)
	if got := p.Head(); got != (Cost{}) {
		t.Errorf("nobody waits, and the head takes %v", got)
	}
	if got := p.Largest()[Tokens]; got != 70_000 {
		t.Errorf("the largest call took %d, want 70,000", got)
	}
	p.Pump(t0.Add(36*time.Second), nil)
	if got := p.Largest()[Tokens]; got > 35_000 || got < 30_000 {
		t.Errorf("after 36 s the largest call counts %d, want half of 70,000", got)
	}
}
