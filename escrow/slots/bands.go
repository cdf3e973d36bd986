package slots

import "github.com/llmgov/llmgov/escrow"

// Priority bands in a pool whose slots are divided over processes. The slots that calls of a band may begin in are a limit on
// all calls, of whatever band, and divided over processes like any other. Each process tells of all bands that tenants are in, because
// its calls of higher ones take room as well.

// BandDemand is the demand of this process on the slots that calls of one band may begin in.
type BandDemand struct {
	// Below is how far the band is below the highest.
	Below int
	// Slots is how many of all slots may be in use when such a call begins. Calls is how many of the band run or wait here, and Waiting
	// how many of these keep out of the rest.
	Slots, Calls, Waiting int64
}

// BandGrant is how many calls may run here when one of a band begins.
type BandGrant struct {
	Below int
	Slots int64
}

// demandBands fills in the demand of the bands.
func (s *Side) demandBands(d *Demand) {
	if s.rules.HoldBackPPM == 0 {
		return
	}
	var waiting, calls [escrow.LowestBand + 1]int64
	var there [escrow.LowestBand + 1]bool
	lacking := map[escrow.NodeID]int64{}
	room := escrow.RoomOf(d.Together, s.rules.HoldBackPPM)
	for _, x := range s.nodes {
		if !x.Leaf {
			continue
		}
		n := s.pool.Node(x.ID)
		there[n.Below] = true
		calls[n.Below] += int64(n.Running + n.Queued)
		if n.Queued > 0 && s.pool.WaitsForSlot(x.ID) && !s.pool.WaitsRestricted(x.ID) {
			waiting[n.Below] += int64(n.Queued)
			lacking[s.pool.Top(x.ID)] += int64(n.Queued)
		}
	}
	s.tellUse(d, lacking)
	for below := escrow.LowestBand; below > 0; below-- {
		if there[below] {
			d.Bands = append(d.Bands, BandDemand{Below: below, Slots: room[below], Calls: calls[below], Waiting: waiting[below]})
		}
	}
}

// shareRoom has calls of lower bands keep out of the last of all processes' slots. A band without a grant has that of a lower
// one, or its part of the slots here.
func (s *Side) shareRoom(slots int64) {
	s.pool.ShareElsewhere(nil)
	if s.rules.HoldBackPPM > 0 && !s.until.IsZero() {
		s.pool.ShareElsewhere(s.elsewhere())
	}
	if len(s.grant.Bands) == 0 {
		return
	}
	room := escrow.RoomOf(slots, s.rules.HoldBackPPM)
	var granted [escrow.LowestBand + 1]bool
	for _, band := range s.grant.Bands {
		room[band.Below] = band.Slots
		granted[band.Below] = true
	}
	for below := escrow.LowestBand - 1; below > 0; below-- {
		if !granted[below] {
			room[below] = max(room[below], room[below+1])
		}
	}
	s.pool.ShareRoom(room)
}

// HoldBack is how many calls may run in all processes when one of a leaf begins, and how many do. Without a hold-back both
// are 0.
func (s *Side) HoldBack(leaf escrow.NodeID) (limit, used int64) {
	below := s.pool.Node(leaf).Below
	if s.rules.HoldBackPPM == 0 || below == 0 {
		return 0, 0
	}
	slots, used := s.InUse()
	return escrow.RoomOf(slots, s.rules.HoldBackPPM)[below], used
}

// KeptOut reports whether a slot is free, but not for a call of a leaf, because it keeps out of the last ones.
func (s *Side) KeptOut(leaf escrow.NodeID) bool {
	return s.pool.HeldBack(leaf) && s.pool.HasSlot(escrow.Root, false)
}
