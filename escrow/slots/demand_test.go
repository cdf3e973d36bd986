package slots

import "testing"

// TestDemand_Excuse: calls that both their tenant's soft cap and their band keep waiting are taken out of the demand once, and nobody
// else's with them.
func TestDemand_Excuse(t *testing.T) {
	d := Demand{Waiting: 15, Stakes: []Stake{{Node: 1, Queued: 10}, {Node: 2, Queued: 5}}}
	d.excuse(1, 8)
	d.excuse(1, 8)
	if d.Waiting != 5 || d.Stakes[0].Queued != 0 || d.Stakes[1].Queued != 5 {
		t.Errorf("with all of one tenant's calls excused, and 5 of another, the demand is %d: %+v", d.Waiting, d.Stakes)
	}
}
