package governor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/escrow"
)

// Priority bands in a pool whose slots are divided over processes. The slots that calls of a band may begin in are a limit on
// all calls, of whatever band, and divided over processes like any other. Each process tells of all bands that tenants are in, because
// its calls of higher ones take room as well.

// below is how many bands the tenant's calls are below the highest.
func (t *Tenant) below() int {
	if t.Background {
		return escrow.LowestBand
	}
	return t.Below
}

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

// bandsDemandLocked fills in the demand of the bands. Calls that keep out of the last slots lack none of them.
func (p *pool) bandsDemandLocked(d *SlotsDemand) {
	if p.rules.HoldBackPPM == 0 {
		return
	}
	d.Note = p.tellRunning(d.Stakes)
	var waiting, calls [escrow.LowestBand + 1]int64
	var there [escrow.LowestBand + 1]bool
	room := escrow.RoomOf(d.Together, p.rules.HoldBackPPM)
	for _, leaf := range p.claims.tree.leaves {
		n := p.escrow.Node(leaf)
		there[n.Below] = true
		calls[n.Below] += int64(n.Running + n.Queued)
		if n.Queued == 0 || !p.escrow.WaitsBack(leaf) {
			continue
		}
		waiting[n.Below] += int64(n.Queued)
		free := max(0, room[n.Below]-d.Running-p.grants.Others)
		d.excuse(p.escrow.Top(leaf), int64(n.Queued)-free)
	}
	for below := escrow.LowestBand; below > 0; below-- {
		if there[below] {
			d.Bands = append(d.Bands, BandDemand{Below: below, Slots: room[below], Calls: calls[below], Waiting: waiting[below]})
		}
	}
}

// mostTold is how many groups, and tenants in none, a process tells the others of at most: those that run the most calls.
const mostTold = 32

// tellRunning is the note on how many calls run here of whom, a line each.
func (p *pool) tellRunning(stakes []Stake) string {
	stakes = slices.Clone(stakes)
	slices.SortStableFunc(stakes, func(a, b Stake) int { return cmp.Compare(b.Running, a.Running) })
	var note strings.Builder
	for _, s := range stakes[:min(len(stakes), mostTold)] {
		if s.Running > 0 {
			fmt.Fprintf(&note, "%d %s\n", s.Running, p.claims.tree.paths[s.Node])
		}
	}
	return note.String()
}

// hearRunning is what runs in other processes by their notes. A line that says nothing here is skipped.
func (p *pool) hearRunning(notes []Note, others int64) *escrow.Elsewhere {
	e := &escrow.Elsewhere{Running: map[escrow.NodeID]int64{}, All: others}
	for _, note := range notes {
		for line := range strings.Lines(note.Text) {
			calls, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			n, err := strconv.ParseInt(calls, 10, 32)
			if at, there := p.claims.tree.index[path]; there && err == nil {
				e.Running[p.claims.tree.told[at].ID] += max(0, n)
			}
		}
	}
	for _, x := range p.claims.tree.nodes {
		if x.up == escrow.Root && (e.Running[x.id] > 0 || p.escrow.Node(x.id).Running > 0) {
			e.Busy += x.node.Weight
		}
	}
	return e
}

// shareRoomLocked has calls of lower bands keep out of the last of all processes' slots. A band without a grant has that of a lower
// one, or its part of the slots here.
func (p *pool) shareRoomLocked(slots int64) {
	p.escrow.ShareElsewhere(nil)
	if p.rules.HoldBackPPM > 0 && !p.grants.until.IsZero() {
		p.escrow.ShareElsewhere(p.hearRunning(p.grants.Notes, p.grants.Others))
	}
	if len(p.grants.Bands) == 0 {
		return
	}
	room := escrow.RoomOf(slots, p.rules.HoldBackPPM)
	var granted [escrow.LowestBand + 1]bool
	for _, band := range p.grants.Bands {
		room[band.Below] = band.Slots
		granted[band.Below] = true
	}
	for below := escrow.LowestBand - 1; below > 0; below-- {
		if !granted[below] {
			room[below] = max(room[below], room[below+1])
		}
	}
	p.escrow.ShareRoom(room)
}

// holdBackLocked is how many calls may run in all processes when one of a leaf begins, and how many do. Without a hold-back both
// are 0.
func (p *pool) holdBackLocked(leaf escrow.NodeID) (limit, used int64) {
	below := p.escrow.Node(leaf).Below
	if p.rules.HoldBackPPM == 0 || below == 0 {
		return 0, 0
	}
	slots, used := p.slotsLocked()
	return escrow.RoomOf(slots, p.rules.HoldBackPPM)[below], used
}

// keptOutLocked reports whether a slot is free, but not for a call of a leaf, because it keeps out of the last ones.
func (p *pool) keptOutLocked(leaf escrow.NodeID) bool {
	return p.escrow.HeldBack(leaf) && p.escrow.HasSlot(escrow.Root, false)
}
