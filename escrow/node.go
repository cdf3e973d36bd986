package escrow

import "time"

// NodeID names a node of a pool's tree. IDs are small, dense, and used again
// once their node is removed.
type NodeID int32

// Root is the pool itself, the parent of all.
const Root NodeID = 0

// Node describes a claim on its parent's share. A node without children is a
// leaf, where calls are offered.
type Node struct {
	// Weight is MinWeight to MaxWeight.
	Weight Weight
	// Floor is how many tokens a minute the node gets before weights count; 0 is
	// none. The floors of a pool are to sum to less than its limit.
	Floor int64
	// Credit is how much of its share a node that was quiet may catch up, as time
	// at the share it has when all its siblings are busy; 0 is none.
	Credit time.Duration
	// Capped says that Config.SoftCap holds for the calls below the node together. No node below it is to be Capped.
	Capped bool
	// Below is how many bands a leaf is below the highest, 0 to LowestBand: see Config.HoldBack.
	Below int
	// Joined says that the demand of a leaf counts as its parent's. All children of that are Joined.
	Joined bool
}

// rank is where a node stands among its siblings: each inner node has a heap of its
// children for each, in each of its lanes. Of calls, interactive and background are their class.
type rank int8

// A node stands with those who have interactive calls, else with those who have
// background calls, else, while only kept places are left of it, or while it stands aside, with the absent:
// these are never served, and count in predictions.
const (
	interactive rank = iota
	background
	absent

	ranks        = int(iota)
	none    rank = -1
	classes      = int(background) + 1
)

// node is one claim: its tags among its siblings, and the sums of all that lies below it.
type node struct {
	parent NodeID
	claim  Node  // as it was described
	share  int64 // of the claim, in millionths, that counts here: see Pool.Share
	weight int64 // in thousandths
	floor  int64 // tokens a minute
	credit time.Duration

	// finish is the node's tag, at which its next call may start: the last one's
	// start plus its cost over the weight. While calls wait below it, it is the
	// start tag of the first. A virtual cost at weight 1, as all tags are.
	finish int64
	// epoch is the lead epoch in which the node last was served.
	epoch  uint64
	stands spot // in its parent's lanes
	// via is the upstreams that the calls may use which wait below, or came last.
	via Mask
	// opening is the last of the tree's openings in which the node was not parked.
	opening uint32

	// due is when the floor entitles the node to its next call, in µs of the pool.
	due    int64
	floors spot // in the tree's lanes of floors

	// The calls that wait below, tickets included: their virtual cost, and the cost that they will be
	// booked at. And how many calls wait, tickets not included.
	backlog int64
	booked  Cost
	queued  [classes]int32
	// ready are those of queued that are below no node that stands aside, and aside says that this one does: see aside.go.
	ready [classes]int32
	aside bool
	// makesUp says that it keeps its tag when it comes back.
	makesUp bool
	// promised is the virtual cost of the kept places below, and passed how far
	// the node's tag has been moved past the first of them, as nothing waited.
	promised, passed int64
	// doubted is how much of promised nobody will probably come for, or will have left: see patience.
	doubted  int64
	running  int32 // calls below; not counted for Root, see Pool.running
	received int64 // virtual cost of all that it was served; not counted for Root
	flow     flow  // of it, lately; of Root too

	*inner // of a node with children
	leaf   // of one without
}

// leaf holds the calls of a node without children.
type leaf struct {
	calls   [classes]entryList
	tickets entryList // by promised time
	places  int32     // how many tickets
	// patience is nil until a place is kept.
	patience *patience
	// yielded is how much virtual cost of interactive calls was served while
	// background ones waited, less backgroundShare-1 times what was of these.
	yielded int64
	// later is the virtual cost of the background calls that wait, tickets included.
	later  int64
	paused int32 // calls: see Pool.Pause
	// restricted are its bounds at upstreams; nil but for few leaves: see Restrict.
	restricted []restriction
}

// noCalls is an empty leaf.
var noCalls = leaf{calls: [classes]entryList{{-1, -1}, {-1, -1}}, tickets: entryList{-1, -1}}

// inner is the part of a node that only those with children have.
type inner struct {
	children int32
	weights  int64 // of all children, in thousandths
	busy     int64 // weights of the children that run calls
	lanes    lanes
	// virtual is the start tag of the last child served: the time of the fluid
	// system below this node. Children that return start here, not in the past.
	virtual int64
	// latest is the largest finish tag ever given: virtual time once all is idle.
	latest int64
	idle   uint64 // the idle period up to which virtual is right
	// mean is the mean tag, by weight, of the children that wait or have kept places, as of meanAt.
	// If all of them are present their tags are close together, and virtual will do; those that are
	// absent fall behind.
	mean, meanAt int64

	levels []level // by upstream

	// In the lead epoch: the virtual cost that went through the node, what it was
	// paced by, and the weight of the children that took it.
	epoch   uint64
	through int64
	paced   int64
	leading int64
}

// waiting says how many calls wait below.
func (n *node) waiting() int32 { return n.queued[interactive] + n.queued[background] }

// able says how many of these are below no node that stands aside.
func (n *node) able() int32 { return n.ready[interactive] + n.ready[background] }

// expected is the virtual cost of the calls that wait below, and of the kept places that will probably be used.
func (n *node) expected() int64 { return n.backlog - n.doubted }

// standing is the rank that the node is entitled to.
func (n *node) standing() rank {
	switch {
	case n.ready[interactive] > 0 && !n.aside:
		return interactive
	case n.ready[background] > 0 && !n.aside:
		return background
	case n.promised > 0 || n.waiting() > 0:
		return absent
	}
	return none
}
