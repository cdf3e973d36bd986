package escrow

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/muldiv"
)

// Who returns catches up on what the others ran ahead by, as far as it counts in their
// shares: of ten tokens that they took at once, their tags were moved by one.
func TestLeadIsWhatCountsInShares(t *testing.T) {
	now := time.Unix(0, 0)
	p := New(now, Config{TPM: 600_000, Burst: Window, MaxQueue: 10})
	a := p.Add(Root, Node{Weight: WeightOne})
	b := p.Add(Root, Node{Weight: WeightOne})
	take := func(tokens int64) {
		h, ans := p.Offer(now, Call{Leaf: a, Most: Cost{tokens, 1}, Fair: tokens / 10})
		if ans.Verdict != Admitted {
			t.Fatalf("a call of %d tokens at %v: %+v", tokens, now, ans)
		}
		p.SettleFair(now, h, Cost{tokens, 1}, tokens/10)
	}
	p.Offer(now, Call{Leaf: a, Most: Cost{1, 1}}) // it runs on, so that the pool is never idle
	for range 600 {
		now = now.Add(time.Second)
		take(9000)
	}
	now = now.Add(time.Minute)
	for range 20 {
		take(20_000)
	}
	p.advance(now)
	back := p.virtualOf(p.nodes[Root].inner) - p.startTag(b)
	if want := p.lead / 10; p.lead == 0 || back < want*99/100 || back > want*101/100 {
		t.Errorf("who returns starts %d back, want %d of a lead of %d", back, want, p.lead)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// What is told beyond what there is, or below nothing, changes nothing.
func TestFairIsAPartOfTheCost(t *testing.T) {
	now := time.Unix(0, 0)
	for _, tt := range []struct{ expected, told, want int64 }{
		{0, 1000, 1000}, // 0 is all of it
		{2000, 1000, 1000},
		{100, 100, 100},
		{100, 5000, 1000},
		{1000, -1, 0},
	} {
		p := New(now, Config{TPM: 600_000, MaxQueue: 10})
		a := p.Add(Root, Node{Weight: WeightOne})
		h, _ := p.Offer(now, Call{Leaf: a, Most: Cost{1000, 1}, Fair: tt.expected})
		p.SettleFair(now, h, Cost{1000, 1}, tt.told)
		if got, want := p.nodes[a].finish, muldiv.Ceil(tt.want, tagUnit, 600_000); got != want {
			t.Errorf("expected %d, told %d of 1000: the tag is %d, want %d", tt.expected, tt.told, got, want)
		}
		if used := p.State(now).Axes[Tokens].Used; used != 1000 {
			t.Errorf("the ledger counts %d, want 1000", used)
		}
	}
}
