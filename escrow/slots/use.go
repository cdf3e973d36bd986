package slots

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lib/maxmin"
)

// Processes that share the slots of a pool with a hold-back tell each other whose calls run there, and whose lack a slot. The calls of a
// tenant rise while it has less than its share of the slots in use anywhere. That is larger if others want less than their shares, so that
// they leave it a part of the rest.

// mostTold is how many groups, and tenants in none, a process tells the others of at most: those with the most calls.
const mostTold = 32

// waits begins a line of a note that is of calls that lack a slot. Earlier releases skip such lines.
const waits = "waits "

// use is how many calls of a node run, and how many lack a slot.
type use struct{ running, lacking int64 }

// tellUse fills in the note on the calls here: of each node a line on those that run, and one on those that lack a slot.
func (s *Side) tellUse(d *Demand, lacking map[escrow.NodeID]int64) {
	s.lacked = lacking
	stakes := slices.Clone(d.Stakes)
	slices.SortStableFunc(stakes, func(a, b Stake) int {
		return cmp.Compare(b.Running+lacking[b.Node], a.Running+lacking[a.Node])
	})
	var note strings.Builder
	for _, stake := range stakes[:min(len(stakes), mostTold)] {
		if stake.Running > 0 {
			fmt.Fprintf(&note, "%d %s\n", stake.Running, stake.path)
		}
		if n := lacking[stake.Node]; n > 0 {
			fmt.Fprintf(&note, "%s%d %s\n", waits, n, stake.path)
		}
	}
	d.Note = note.String()
}

// hearUse is the use of other processes by their notes. A line that says nothing here is skipped.
func (s *Side) hearUse() map[escrow.NodeID]use {
	heard := map[escrow.NodeID]use{}
	for _, note := range s.grant.Notes {
		for line := range strings.Lines(note.Text) {
			line, lacks := strings.CutPrefix(strings.TrimSuffix(line, "\n"), waits)
			calls, path, _ := strings.Cut(line, " ")
			n, err := strconv.ParseInt(calls, 10, 32)
			id, there := s.paths[path]
			if !there || err != nil || n < 0 {
				continue
			}
			u := heard[id]
			if lacks {
				u.lacking += n
			} else {
				u.running += n
			}
			heard[id] = u
		}
	}
	return heard
}

// shareUse has shares of the slots in use be those of all processes, where calls of lower bands keep out of some.
func (s *Side) shareUse() {
	var e *escrow.Elsewhere
	if s.pool.Banded() && !s.until.IsZero() {
		e = s.elsewhere()
	}
	s.pool.ShareElsewhere(e)
}

// elsewhere is what others run, and which nodes want more than their share of the slots in use anywhere.
func (s *Side) elsewhere() *escrow.Elsewhere {
	heard := s.hearUse()
	e := &escrow.Elsewhere{Running: make(map[escrow.NodeID]int64, len(heard)), All: s.grant.Others, Wanting: map[escrow.NodeID]int64{}}
	var claims []maxmin.Claim
	inUse := int64(0)
	for i, x := range s.nodes {
		if !x.Top {
			continue
		}
		u := heard[x.ID]
		if u.running > 0 {
			e.Running[x.ID] = u.running
		}
		u.running += int64(s.pool.Node(x.ID).Running)
		u.lacking += s.lacked[x.ID]
		if u.running > 0 {
			e.Busy += x.Weight
		}
		if u != (use{}) {
			claims = append(claims, maxmin.Claim{ID: i, Weight: float64(x.Weight.Thousandths()), Demand: float64(u.running + u.lacking)})
		}
		inUse += u.running
	}
	maxmin.Divide(float64(inUse), claims)
	for _, c := range claims {
		if x := &s.nodes[c.ID]; c.Share < c.Demand {
			e.Wanting[x.ID] = e.Running[x.ID] + int64(s.pool.Node(x.ID).Running)
			e.Wants.Weight += x.Weight
			e.Wants.Calls += e.Wanting[x.ID]
		}
	}
	return e
}
