package federation

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Amounts are tokens and requests, indexed by escrow.Tokens and escrow.Requests.
type Amounts = escrow.Cost

const axes = len(Amounts{})

// MaxLimit bounds every limit that is shared, so that no product of a limit and a time
// exceeds 2⁵³: stores whose only numbers are floats compute exactly what Go does.
const MaxLimit = int64(1e11)

// Rules are the constants of the protocol. All nodes of a pool have the same.
type Rules struct {
	// Window is that of the limits, in Slots slots. One slot in Slots+1 of a saturated
	// limit is lost.
	Window time.Duration
	Slots  int64
	// Beat is how often a node tells what it has used, and Eager how soon after a beat it
	// may do so out of turn.
	Beat, Eager time.Duration
	// TTL is how long a grant may be used. It has to outlast a beat that is lost and the
	// round trip of the next.
	TTL time.Duration
}

// DefaultRules are those that llmgov runs by.
func DefaultRules() Rules {
	return Rules{Window: escrow.Window, Slots: 240, Beat: time.Second, Eager: 250 * time.Millisecond, TTL: 2500 * time.Millisecond}
}

func (r Rules) slot() int64   { return r.window() / r.Slots }
func (r Rules) window() int64 { return r.Window.Milliseconds() }
func (r Rules) ttl() int64    { return r.TTL.Milliseconds() }

// silent is after how long without a beat a node gets no share any more.
func (r Rules) silent() int64 { return 3 * r.Beat.Milliseconds() }

// Beat is what a node tells the store of one pool. Times are milliseconds of the
// store's clock, amounts are sums and not differences: told twice, they say the same.
type Beat struct {
	Node, Region string
	// Instance names the process: random, new at each start. Join says that it has not
	// had an answer yet. Seq numbers its beats, and Acked is the last one that was answered.
	// Epoch is that of the last answer.
	Instance          string
	Join              bool
	Seq, Acked, Epoch int64
	// Full says that Booked is all that counts, not only what has changed.
	Full bool

	// Limits are the pool's as the node knows them, less headroom; 0 is none. The least of
	// any node holds. Burst is how much of them an idle pool may hand out at once, Reserve
	// what is never granted.
	Limits, Burst, Reserve Amounts
	// Expect is how many nodes there are, as far as this one was told: after a loss the
	// store grants again once so many have told all, and not only after a Window. 0 is
	// not known.
	Expect int

	// Sent is the least that the store's clock may have shown as the beat was sent, and
	// Joined the most as the process had its first answer.
	Sent, Joined int64
	// Booked is what calls used, and are planned to use, by slot of the store's clock, the
	// whole of this node in each slot that is there. Up to slot Past it was used before the
	// beat was sent, also where the slot is still to come. Held belongs to no slot yet.
	Booked []Booked
	Past   int64
	Held   Amounts
	// Holding is what the node may still hand out, as of Sent, if no answer comes.
	Holding [axes]Envelope
	// Parts are what that had grown to by Sent beyond whole units, and what the grant that
	// answers begins with: in parts of a unit, of which it has as many as the Window has
	// milliseconds.
	Parts Amounts

	// What follows decides how much the node gets, and never how much all get.

	// Waiting is what waits in the queue, and Largest the largest call of late.
	Waiting, Largest Amounts
	// Curve is how much the node's callers would use by level.
	Curve []Point
	// Demands are those of single leaves, by path.
	Demands []Demand
	// Under are the paths of inner nodes that the node has callers below. It wants to know
	// of all demands there, of which it tells only its own.
	Under []string
}

// Booked is what is booked in one slot.
type Booked struct {
	Slot int64
	Used Amounts
}

// Envelope bounds what may be used from a time on: Level at once, and Rate units a
// Window as time passes, for Left milliseconds.
type Envelope struct{ Level, Rate, Left int64 }

// Demand is what is asked for at one leaf of the tree, as a virtual cost a Window.
type Demand struct {
	Path string
	Rate int64
}

// Status is what the store says to a beat.
type Status string

const (
	// Granted: it was booked, and Grant holds.
	Granted Status = "granted"
	// Learning: it was booked, and nothing is granted yet, for the store does not know
	// what was used before it knew anything.
	Learning Status = "learning"
	// Resend: the store knows nothing of the node. It wants to be told all.
	Resend Status = "resend"
	// Stale: a later beat was there before.
	Stale Status = "stale"
	// Fenced: another process has taken the node's name.
	Fenced Status = "fenced"
)

// Reply answers a beat.
type Reply struct {
	Status   Status
	Instance string
	Seq      int64
	// Epoch numbers the store's memories: a new one begins when the old one is lost.
	Epoch int64
	// Now is the store's clock.
	Now int64
	// Grant is what may be used from when the beat was sent.
	Grant [axes]Envelope
	// Level is how much each unit of weight gets, as a virtual cost a Window: the water
	// level. It is negative if all that is asked for can be had.
	Level float64
	// Totals are the demands of all nodes, at the leaves that the beat named, and at all
	// below the paths that it named.
	Totals []Demand
	// Until is when Learning ends.
	Until int64
}
