package slots

import (
	"maps"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
)

// TestSide_Use: processes tell each other whose calls run and whose lack a slot, and know from that who wants more than its share: not who
// has what it wants, and leaves the others a part of its share.
func TestSide_Use(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	p := escrow.New(now, escrow.Config{Slots: 20, MaxQueue: 100, HoldBack: 300_000})
	chat := p.Add(escrow.Root, escrow.Node{Weight: 6 * escrow.WeightOne})
	tools := p.Add(escrow.Root, escrow.Node{Weight: 2 * escrow.WeightOne})
	batch := p.Add(escrow.Root, escrow.Node{Weight: 2 * escrow.WeightOne, Below: escrow.LowestBand})
	s := New(p, true)
	s.Configure(Rules{Slots: 20, HoldBackPPM: 300_000})
	s.Plant([]Node{
		{ID: chat, Path: "chat", Weight: 6 * escrow.WeightOne, Top: true, Leaf: true},
		{ID: tools, Path: "tools", Weight: 2 * escrow.WeightOne, Top: true, Leaf: true},
		{ID: batch, Path: "our batch", Weight: 2 * escrow.WeightOne, Top: true, Leaf: true},
	})
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 4, Open: 4, Bands: []BandGrant{{Below: escrow.LowestBand, Slots: 4}}})
	offer(p, now, tools, 1)
	offer(p, now, batch, 5)
	const note = "3 our batch\nwaits 2 our batch\n1 tools\n"
	if d := s.Demand(now, 0); d.Note != note {
		t.Errorf("it tells %q, want %q", d.Note, note)
	}
	s.Allow(now, now.Add(time.Hour), &Grant{Slots: 4, Open: 4, Others: 16, Notes: []adaptive.Note{
		{Text: "13 chat\nwaits 9 chat\n1 gone\nwaits 1 gone\nwaits much chat\nwaits\n"},
		{Text: "1 our batch\n1 tools\nwaits 1 tools\n"},
	}})
	e := s.elsewhere()
	if want := map[escrow.NodeID]int64{chat: 13, tools: 1, batch: 1}; !maps.Equal(e.Running, want) || e.All != 16 {
		t.Errorf("elsewhere %v run, %d in all; want %v", e.Running, e.All, want)
	}
	// of 19 slots that are known to be in use tools wants 3, less than its fifth
	if want := map[escrow.NodeID]int64{chat: 13, batch: 4}; !maps.Equal(e.Wanting, want) || e.Wants.Calls != 17 || e.Wants.Weight != 8*escrow.WeightOne {
		t.Errorf("%v want more, %+v in all; want %v", e.Wanting, e.Wants, want)
	}
}
