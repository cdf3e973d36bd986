package slots

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// TestSide_Restricted: calls that a restriction of their leaf keeps waiting, or turns away, are no demand on the slots that other
// processes have; those of others are.
func TestSide_Restricted(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	p := escrow.New(now, escrow.Config{Slots: 20, MaxQueue: 100})
	leaf := p.Add(escrow.Root, escrow.Node{Weight: escrow.WeightOne})
	other := p.Add(escrow.Root, escrow.Node{Weight: escrow.WeightOne})
	s := New(p, true)
	s.Configure(Rules{Slots: 20})
	s.Plant([]Node{{ID: leaf, Path: "a", Top: true, Leaf: true}, {ID: other, Path: "b", Top: true, Leaf: true}})
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 4, Open: 4})
	offer := func(call escrow.Call) (ask bool) {
		_, ans := p.Offer(now, call)
		p.Pump(now, nil)
		return ans.Verdict != escrow.Admitted && s.Lacks(now, &call, ans.Verdict == escrow.Queued)
	}
	for range 2 {
		offer(escrow.Call{Leaf: leaf, Most: escrow.Cost{0, 1}})
		offer(escrow.Call{Leaf: other, Most: escrow.Cost{0, 1}})
	}
	p.Restrict(leaf, 0, 2, now.Add(time.Hour))
	restricted := escrow.Call{Leaf: leaf, Most: escrow.Cost{0, 1}, MaxWait: time.Hour}
	if s.Coming(&restricted) {
		t.Error("a slot is said to come for a call that could not use it")
	}
	for range 7 {
		if offer(restricted) {
			t.Error("more is asked for because of a call that could not use it")
		}
	}
	if !offer(escrow.Call{Leaf: other, Most: escrow.Cost{0, 1}, MaxWait: time.Hour}) {
		t.Error("nothing is asked for because of a call that lacks a slot")
	}
	if d := s.Demand(now, 0); d.Waiting != 1 || d.Stakes[0].Queued != 0 || d.Stakes[1].Queued != 1 {
		t.Errorf("the demand is %+v", d)
	}
}

// TestSide_KeptByTwoRules: calls that two rules keep waiting, a restriction and their band, or their band and their tenant's soft cap, are
// taken out of the demand once, and no calls of others in their group with them.
func TestSide_KeptByTwoRules(t *testing.T) {
	for what, c := range map[string]struct {
		rules    Rules
		restrict bool
	}{
		"a restriction and a band":     {Rules{Slots: 20, HoldBackPPM: 500_000}, true},
		"a restriction and a soft cap": {Rules{Slots: 20, SoftCapPPM: 100_000}, true},
		"a band and a soft cap":        {Rules{Slots: 20, SoftCapPPM: 100_000, HoldBackPPM: 500_000}, false},
	} {
		t.Run(what, func(t *testing.T) {
			now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
			p := escrow.New(now, escrow.Config{Slots: 20, MaxQueue: 100, HoldBack: c.rules.HoldBackPPM, SoftCap: c.rules.SoftCapPPM})
			group := p.Add(escrow.Root, escrow.Node{Weight: escrow.WeightOne})
			kept := p.Add(group, escrow.Node{Weight: escrow.WeightOne, Capped: true, Below: escrow.LowestBand})
			other := p.Add(group, escrow.Node{Weight: escrow.WeightOne})
			s := New(p, true)
			s.Configure(c.rules)
			s.Plant([]Node{{ID: group, Path: "g", Top: true}, {ID: kept, Path: "g/a", Name: "a", Leaf: true}, {ID: other, Path: "g/b", Name: "b", Leaf: true}})
			s.Allow(now, now.Add(time.Hour), &Grant{Slots: 12, Open: 12})
			offer(p, now, kept, 3)
			offer(p, now, other, 9)
			if c.restrict {
				p.Restrict(kept, 0, 1, now.Add(time.Hour))
			}
			offer(p, now, kept, 4)
			offer(p, now, other, 5)
			if d := s.Demand(now, 0); d.Waiting != 5 || d.Stakes[0].Queued != 5 {
				t.Errorf("the demand is of %d calls that wait, %d of them in the group; want the 5 that lack a slot", d.Waiting, d.Stakes[0].Queued)
			}
		})
	}
}
