package slots

import (
	"maps"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
)

// TestDemand_Excuse: calls that both their tenant's soft cap and their band keep waiting are taken out of the demand once, and nobody
// else's with them.
func TestDemand_Excuse(t *testing.T) {
	d := Demand{Waiting: 15, Stakes: []Stake{{Node: 1, Queued: 10}, {Node: 2, Queued: 5}}}
	d.excuse(1, 8, 0)
	d.excuse(1, 8, 0)
	if d.Waiting != 5 || d.Stakes[0].Queued != 0 || d.Stakes[1].Queued != 5 {
		t.Errorf("with all of one tenant's calls excused, and 5 of another, the demand is %d: %+v", d.Waiting, d.Stakes)
	}
}

// TestDemand_ExcuseBackground: of background calls that lack no slot those are taken out first that lack one of the slots that background
// calls may use, because the demand on all slots does not count them.
func TestDemand_ExcuseBackground(t *testing.T) {
	d := Demand{Waiting: 7, Background: 10, Stakes: []Stake{{Node: 1, Queued: 11}, {Node: 2, Queued: 6}}}
	d.excuse(1, 11, 11)
	if d.Waiting != 6 || d.Background != 0 || d.Stakes[0].Queued != 0 || d.Stakes[1].Queued != 6 {
		t.Errorf("with 11 background calls excused, 10 of which lacked a slot of theirs, the demand is %+v", d)
	}
}

// now is when all of these tests happen.
var now = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// lowestBand is a pool of 20 slots, and one side of it, with a leaf that leaves 6 of them free.
func lowestBand() (p *escrow.Pool, s *Side, leaf escrow.NodeID) {
	p = escrow.New(now, escrow.Config{Slots: 20, MaxQueue: 100, HoldBack: 300_000})
	leaf = p.Add(escrow.Root, escrow.Node{Weight: 1, Below: escrow.LowestBand})
	s = New(p, true)
	s.Configure(Rules{Slots: 20})
	s.Plant([]Node{{ID: leaf, Path: "a", Top: true, Leaf: true}})
	return p, s, leaf
}

// lowestRoom is the grant of so many slots in which calls of the lowest band may begin.
func lowestRoom(slots int64) []BoundGrant {
	return []BoundGrant{{Bound: Bound{Rule: escrow.HoldBack, Below: escrow.LowestBand}, Slots: slots}}
}

// offer offers calls of a leaf to a pool, lets begin what may, and returns the last of them.
func offer(p *escrow.Pool, leaf escrow.NodeID, calls int) (last escrow.Handle) {
	for range calls {
		last, _ = p.Offer(now, escrow.Call{Leaf: leaf, Most: escrow.Cost{0, 1}, MaxWait: time.Hour})
		p.Pump(now, nil)
	}
	return last
}

// TestSide_RoomWithoutSlot: calls of a lower band that lack a slot are demand on the room of their band, too. Else the room would be gone when
// the slot comes.
func TestSide_RoomWithoutSlot(t *testing.T) {
	p, s, leaf := lowestBand()
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 2, Bounds: lowestRoom(3)})
	offer(p, leaf, 5)
	if d := s.Demand(now, 0); d.Waiting != 3 || d.Bounds[0].Waiting != 3 {
		t.Errorf("3 calls lack a slot, and the demand is of %d, and of %d on room", d.Waiting, d.Bounds[0].Waiting)
	}
}

// TestSide_HeldBack: of the calls of a tenant that are held back, one is demand on the slots, so that it finds one when it has risen.
func TestSide_HeldBack(t *testing.T) {
	p, s, leaf := lowestBand()
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 2, Others: 18, Bounds: lowestRoom(2)})
	offer(p, leaf, 7)
	if d := s.Demand(now, 0); d.Waiting != 1 || d.Stakes[0].Queued != 1 {
		t.Errorf("5 calls are held back, and the demand is of %d, %d of its tenant", d.Waiting, d.Stakes[0].Queued)
	}
}

// TestSide_RoomBesideSlot: calls that are held back are demand on the room of their band, also while slots are free.
func TestSide_RoomBesideSlot(t *testing.T) {
	p, s, leaf := lowestBand()
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 4, Others: 16, Bounds: lowestRoom(2)})
	offer(p, leaf, 7)
	if d := s.Demand(now, 0); d.Running != 2 || d.Bounds[0].Waiting != 5 {
		t.Errorf("2 of 7 calls may run, %d do, and the demand on room is of %d", d.Running, d.Bounds[0].Waiting)
	}
}

// TestSide_Restricted: calls that a restriction of their leaf keeps waiting, or turns away, are no demand on the slots that other
// processes have; those of others are.
func TestSide_Restricted(t *testing.T) {
	p := escrow.New(now, escrow.Config{Slots: 20, MaxQueue: 100})
	leaf := p.Add(escrow.Root, escrow.Node{Weight: 1})
	other := p.Add(escrow.Root, escrow.Node{Weight: 1})
	s := New(p, true)
	s.Configure(Rules{Slots: 20})
	s.Plant([]Node{{ID: leaf, Path: "a", Top: true, Leaf: true}, {ID: other, Path: "b", Top: true, Leaf: true}})
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 4})
	var last escrow.Handle
	offer := func(call escrow.Call) (ask bool) {
		h, ans := p.Offer(now, call)
		p.Pump(now, nil)
		if call.Leaf == leaf && p.Running(h) {
			last = h
		}
		return ans.Verdict != escrow.Admitted && s.Lacks(now, &call, ans.Verdict == escrow.Queued)
	}
	for range 2 {
		offer(escrow.Call{Leaf: leaf, Most: escrow.Cost{0, 1}})
		offer(escrow.Call{Leaf: other, Most: escrow.Cost{0, 1}})
	}
	p.Failed(now, last, now)
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
		pool     escrow.Config
		restrict bool
	}{
		"a restriction and a band":     {escrow.Config{HoldBack: 500_000}, true},
		"a restriction and a soft cap": {escrow.Config{SoftCap: 100_000}, true},
		"a band and a soft cap":        {escrow.Config{SoftCap: 100_000, HoldBack: 500_000}, false},
	} {
		t.Run(what, func(t *testing.T) {
			p := escrow.New(now, escrow.Config{Slots: 20, MaxQueue: 100, HoldBack: c.pool.HoldBack, SoftCap: c.pool.SoftCap})
			group := p.Add(escrow.Root, escrow.Node{Weight: 1})
			kept := p.Add(group, escrow.Node{Weight: 1, Capped: true, Below: escrow.LowestBand})
			other := p.Add(group, escrow.Node{Weight: 1})
			s := New(p, true)
			s.Configure(Rules{Slots: 20})
			s.Plant([]Node{{ID: group, Path: "g", Top: true}, {ID: kept, Path: "g/a", Name: "a", Leaf: true}, {ID: other, Path: "g/b", Name: "b", Leaf: true}})
			s.Allow(now, now.Add(time.Hour), &Grant{Slots: 12})
			last := offer(p, kept, 3)
			offer(p, other, 9)
			if c.restrict {
				p.Failed(now, last, now) // of 3, so that 1 may run
			}
			offer(p, kept, 4)
			offer(p, other, 5)
			if d := s.Demand(now, 0); d.Waiting != 5 || d.Stakes[0].Queued != 5 {
				t.Errorf("the demand is of %d calls that wait, %d of them in the group; want the 5 that lack a slot", d.Waiting, d.Stakes[0].Queued)
			}
		})
	}
}

// TestSide_Use: processes tell each other whose calls run and whose lack a slot, and know from that who wants more than its share: not who
// has what it wants, and leaves the others a part of its share.
func TestSide_Use(t *testing.T) {
	p := escrow.New(now, escrow.Config{Slots: 20, MaxQueue: 100, HoldBack: 300_000})
	chat := p.Add(escrow.Root, escrow.Node{Weight: 6})
	tools := p.Add(escrow.Root, escrow.Node{Weight: 2})
	batch := p.Add(escrow.Root, escrow.Node{Weight: 2, Below: escrow.LowestBand})
	s := New(p, true)
	s.Configure(Rules{Slots: 20})
	s.Plant([]Node{
		{ID: chat, Path: "chat", Weight: 6, Top: true, Leaf: true},
		{ID: tools, Path: "tools", Weight: 2, Top: true, Leaf: true},
		{ID: batch, Path: "our batch", Weight: 2, Top: true, Leaf: true},
	})
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 4, Bounds: lowestRoom(4)})
	offer(p, tools, 1)
	offer(p, batch, 5)
	const note = "3 our batch\nwaits 2 our batch\n1 tools\n"
	if d := s.Demand(now, 0); d.Note != note {
		t.Errorf("it tells %q, want %q", d.Note, note)
	}
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 4, Others: 16, Notes: []adaptive.Note{
		{Text: "13 chat\nwaits 9 chat\n1 gone\nwaits 1 gone\nwaits much chat\nwaits\n"},
		{Text: "1 our batch\n1 tools\nwaits 1 tools\n"},
	}})
	e := s.elsewhere()
	if want := map[escrow.NodeID]int64{chat: 13, tools: 1, batch: 1}; !maps.Equal(e.Running, want) || e.All != 16 {
		t.Errorf("elsewhere %v run, %d in all; want %v", e.Running, e.All, want)
	}
	// of 19 slots that are known to be in use tools wants 3, less than its fifth
	if want := map[escrow.NodeID]int64{chat: 13, batch: 4}; !maps.Equal(e.Wanting, want) || e.Wants.Calls != 17 || e.Wants.Weight != 8 {
		t.Errorf("%v want more, %+v in all; want %v", e.Wanting, e.Wants, want)
	}
}

// TestSide_NothingLent: a soft cap of half of the slots or more has nothing lent beside it. Where lent slots and those of the cap were divided
// apart, a tenant could begin calls by the ones at one process, and by the others at the next, and had more than either together.
func TestSide_NothingLent(t *testing.T) {
	for softCap, bounds := range map[int64]int{250_000: 2, 499_999: 2, 500_000: 1, 700_000: 1} {
		p := escrow.New(now, escrow.Config{Slots: 24, MaxQueue: 100, SoftCap: softCap})
		leaf := p.Add(escrow.Root, escrow.Node{Weight: 1, Capped: true})
		s := New(p, true)
		s.Configure(Rules{Slots: 24})
		s.Plant([]Node{{ID: leaf, Path: "a", Top: true, Leaf: true}})
		mine := Bound{Rule: escrow.SoftCap, Tenant: leaf}
		s.Allow(now, now.Add(time.Hour), &Grant{Slots: 9, Others: 8, Bounds: []BoundGrant{{Bound: mine, Slots: 4, Others: 8}}})
		offer(p, leaf, 7)
		d := s.Demand(now, 0)
		if p.InFlight() != 4 {
			t.Errorf("soft cap %d: %d calls run, of a part of 4", softCap, p.InFlight())
		}
		if len(d.Bounds) != bounds || d.Bounds[bounds-1].Bound != mine {
			t.Errorf("soft cap %d: the demand has the bounds %+v, want %d", softCap, d.Bounds, bounds)
		}
	}
}
