package escrow

import "time"

// floorOrder is the tree as the keeper of the heaps of floors.
type floorOrder tree

func (t *floorOrder) moved(id int32, at int) { t.nodes[id].floors.at = int32(at) }
func (t *floorOrder) tie(a, b int32) bool    { return a < b }

// floorMemory is how far back a floor that could not be kept is made good, in µs.
const floorMemory = int64(10 * time.Second / time.Microsecond)

// dueFloor is the node that its floor entitles to a call now, or Root for none: of
// several, the one whose floor has waited longest.
func (t *tree) dueFloor(open bool) NodeID {
	best := Root
	due := t.now
	for r := range rank(classes) {
		if first, ok := t.first(t.floors, r, (*floorOrder)(t)); ok && (open || r == interactive) && (first.key < due || best == Root && first.key == due) {
			best = NodeID(first.id)
			due = first.key
		}
	}
	return best
}

// payFloor moves the due time of a floor that was served, and of those above it,
// by a virtual cost: a floor is a part of the pool's minute, whichever axis a call
// takes most of, and as the books count it (Pool.paces): tokens that count in no share count
// against a floor, or floors that fit into the limit would add up to more. Calls served
// by weight do not count against a floor: as they move the same fair tags, a node gets
// the larger of floor and share, not both.
func (t *tree) payFloor(i NodeID, virtual int64) {
	for ; i != Root; i = t.nodes[i].parent {
		if nd := &t.nodes[i]; nd.floor > 0 {
			micros := signedMulDiv(signedMulDiv(virtual, windowMicros, tagUnit), t.minute, nd.floor)
			nd.due = max(nd.due, t.now-floorMemory) + max(-maxAhead, min(micros, maxAhead))
			t.restandFloor(i)
		}
	}
}

// restandFloor puts node i where it belongs among the floors: with those of its rank,
// while calls wait below it.
func (t *tree) restandFloor(i NodeID) {
	nd := &t.nodes[i]
	is := none
	if nd.floor > 0 && nd.stands.rank < absent && t.minute > 0 {
		is = nd.stands.rank
	}
	t.floors.stand(&nd.floors, is, t.headsOf(i), item{nd.due, int32(i)}, (*floorOrder)(t))
}
