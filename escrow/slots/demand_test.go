package slots

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
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

// lowestBand is a pool of 20 slots, and one side of it, with a leaf that leaves 6 of them free.
func lowestBand(now time.Time) (p *escrow.Pool, s *Side, leaf escrow.NodeID) {
	p = escrow.New(now, escrow.Config{Slots: 20, MaxQueue: 100, HoldBack: 300_000})
	leaf = p.Add(escrow.Root, escrow.Node{Weight: escrow.WeightOne, Below: escrow.LowestBand})
	s = New(p, true)
	s.Configure(Rules{Slots: 20, HoldBackPPM: 300_000})
	s.Plant([]Node{{ID: leaf, Path: "a", Top: true, Leaf: true}})
	return p, s, leaf
}

// offer offers calls of a leaf to a pool, and lets begin what may.
func offer(p *escrow.Pool, now time.Time, leaf escrow.NodeID, calls int) {
	for range calls {
		p.Offer(now, escrow.Call{Leaf: leaf, Most: escrow.Cost{0, 1}, MaxWait: time.Hour})
		p.Pump(now, nil)
	}
}

// TestSide_RoomWithoutSlot: calls of a lower band that lack a slot are demand on the room of their band, too. Else the room would be gone when
// the slot comes.
func TestSide_RoomWithoutSlot(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	p, s, leaf := lowestBand(now)
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 2, Open: 2, Bands: []BandGrant{{Below: escrow.LowestBand, Slots: 3}}})
	offer(p, now, leaf, 5)
	if d := s.Demand(now, 0); d.Waiting != 3 || d.Bands[0].Waiting != 3 {
		t.Errorf("3 calls lack a slot, and the demand is of %d, and of %d on room", d.Waiting, d.Bands[0].Waiting)
	}
}

// TestSide_HeldBack: of the calls of a tenant that are held back, one is demand on the slots, so that it finds one when it has risen.
func TestSide_HeldBack(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	p, s, leaf := lowestBand(now)
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 2, Open: 2, Others: 18, Bands: []BandGrant{{Below: escrow.LowestBand, Slots: 2}}})
	offer(p, now, leaf, 7)
	if d := s.Demand(now, 0); d.Waiting != 1 || d.Stakes[0].Queued != 1 {
		t.Errorf("5 calls are held back, and the demand is of %d, %d of its tenant", d.Waiting, d.Stakes[0].Queued)
	}
}

// TestSide_RoomBesideSlot: calls that are held back are demand on the room of their band, also while slots are free.
func TestSide_RoomBesideSlot(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	p, s, leaf := lowestBand(now)
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 4, Open: 4, Others: 16, Bands: []BandGrant{{Below: escrow.LowestBand, Slots: 2}}})
	offer(p, now, leaf, 7)
	if d := s.Demand(now, 0); d.Running != 2 || d.Bands[0].Waiting != 5 {
		t.Errorf("2 of 7 calls may run, %d do, and the demand on room is of %d", d.Running, d.Bands[0].Waiting)
	}
}
