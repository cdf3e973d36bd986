package federation

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Report is the state of a node's pool, all as of one moment.
type Report struct {
	Limits, Burst, Reserve Amounts
	// Spent is of escrow.Pool.Spent, and Holding the rest of the allowances in force.
	Spent   Amounts
	Holding [axes]Holding
	// Bookings and Held are of escrow.Pool.Bookings.
	Bookings []escrow.Booking
	Held     Amounts
	// Refundable is of escrow.Pool.Refundable.
	Refundable Amounts
	// Largest is the largest call of late.
	Largest Amounts
	// Tree is all nodes of the pool's tree below its root, parents first. Costs in its Demands are of the account's axes.
	Tree []Claim
	// Level is the least that the pool's other accounts have for each unit of weight; 0 is no bound.
	Level float64
}

// waiting is the cost of the calls that wait at all leaves, and of those that are about to come back to their places.
func (r *Report) waiting() (sum Amounts) {
	for _, c := range r.Tree {
		if c.Leaf {
			sum = plus(sum, Amounts(c.Demand.WaitingUnits[:axes]))
		}
	}
	return sum
}

// Holding is the rest of an allowance, and escrow.Pool.Refunded.
type Holding struct {
	Left, Rate, Refunded int64
	Until                time.Time
}

// Claim is one node of a pool's tree.
type Claim struct {
	ID     escrow.NodeID
	Path   string // of names, unique; a child's is its parent's, a slash, and its name
	Parent int    // index in the tree, or -1
	Weight escrow.Weight
	Leaf   bool
	Demand escrow.Demand
}

// Event is an input of a node: a *Report of its pool, when it is Due, or a *Reply of
// the store.
type Event interface{ event() }

func (*Report) event() {}
func (*Reply) event()  {}

// Command is an output of a step: Send, Allow, Share, Others or Stop.
type Command interface{ command() }

type (
	// Send wants a beat sent to the store, and its answer brought to Step. A beat
	// without an answer is not sent again: the next one says all that it said.
	Send struct{ Beat *Beat }
	// Allow puts an allowance in force.
	Allow struct {
		Axis      escrow.Axis
		Allowance escrow.Allowance
	}
	// Share sets how much of a node's claim counts here, in millionths.
	Share struct {
		ID  escrow.NodeID
		PPM int64
	}
	// Others is the usage of other nodes that counts against the limits, as of the last beat. It is
	// for people: the allowances regard it already.
	Others struct {
		Used Amounts
		// Level is Reply.Level, or 0 if all demand can be met.
		Level float64
	}
	// Stop says that another process has taken this one's name. Allowances in force
	// may not be used any more, and nothing else will come.
	Stop struct{}
)

func (Send) command()   {}
func (Allow) command()  {}
func (Share) command()  {}
func (Others) command() {}
func (Stop) command()   {}
