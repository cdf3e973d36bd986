package federation

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Amounts are of the two axes that an account keeps: a pool's tokens and requests, or another pair of its axes, which has an
// account of its own. A pool's limits hold if those of each of its accounts do, and each unit of weight gets what the account
// has for it that has least (Report.Level). So a store knows nothing of axes, and of most pools it keeps no more than two.
type Amounts [axes]int64

const axes = 2

// MaxLimit bounds every limit that is shared, so that no product of a limit and a time
// exceeds 2⁵³: stores whose only numbers are floats compute the same as Go.
const MaxLimit = int64(1e11)

// Rules are the constants of the protocol. They are the same for all nodes of a pool.
type Rules struct {
	// Window is the window of the limits, divided into Slots. One slot in Slots+1 of a saturated
	// limit is lost.
	Window time.Duration
	Slots  int64
	// Beat is how often a node reports its usage, and Eager how soon after a beat it may tell
	// out of turn.
	Beat, Eager time.Duration
	// TTL is how long a grant may be used. It has to be longer than the time until the next beat is
	// answered after one was lost.
	TTL time.Duration
}

// DefaultRules are the rules by which llmgov runs.
func DefaultRules() Rules {
	return Rules{Window: escrow.Window, Slots: 240, Beat: time.Second, Eager: 250 * time.Millisecond, TTL: 2500 * time.Millisecond}
}

func (r Rules) slot() int64   { return r.window() / r.Slots }
func (r Rules) window() int64 { return r.Window.Milliseconds() }
func (r Rules) ttl() int64    { return r.TTL.Milliseconds() }

// silent is after how many milliseconds without a beat a node gets no share any more.
func (r Rules) silent() int64 { return 3 * r.Beat.Milliseconds() }

// Format is the newest format of messages and stored accounts that this release understands. What came with a format is used
// only while all nodes of a pool understand it (Reply.Format), so that releases can be exchanged one node after the other.
//
//	10 is that of the first release; 1 is also that of beats which name no format
//
// A change of how Account.Beat or parts.Account.Beat answers needs another format, because nodes that work out an account have to agree.
const Format = 10

// Beat is a node's report to the store on one pool. Times are milliseconds of the store's clock.
// Amounts are sums, not differences: repeated, they say the same.
type Beat struct {
	Node, Region string
	// Address is where other nodes can reach this one, as readers of the account are told; empty if nowhere.
	Address string
	// Instance names the process: random, and new at each start. Join says that it has not had an
	// answer yet. Seq numbers its beats, Acked is the last one that was answered, and Epoch is that
	// of the last answer.
	Instance          string
	Join              bool
	Seq, Acked, Epoch int64
	// Format is the newest format that the node understands; 0 counts as 1.
	Format int
	// Full says that Booked is everything that counts, not only the changes.
	Full bool

	// Limits are the pool's as the node knows them, less headroom; 0 is no limit. The lowest of any
	// node holds. Burst is how much of them an idle pool may hand out at once, and Reserve is
	// never granted.
	Limits, Burst, Reserve Amounts
	// Expect is how many nodes there are according to this one's configuration; 0 is unknown. After
	// a loss the store grants again as soon as that many have told everything, rather than only
	// after a Window.
	Expect int

	// Sent is the least that the store's clock may have shown when the beat was sent, and Joined
	// the most that it may have shown when the process had its first answer.
	Sent, Joined int64
	// Booked is the usage of calls, past and planned, by slot of the store's clock; for each
	// slot named it is all of this node. Up to slot Past it was used before the beat was sent, even
	// if the slot is still to come. Held belongs to no slot yet.
	Booked []Booked
	Past   int64
	Held   Amounts
	// Refundable is how much of Booked calls that run may give back.
	Refundable Amounts
	// Holding is the amount that the node may still hand out, as of Sent, if no answer comes.
	Holding [axes]Envelope
	// Parts are the fractions of a unit to which that had grown by Sent, and with which the grant
	// in the answer begins. A unit has as many parts as the Window has milliseconds.
	Parts Amounts

	// Copy is of the memory before this one, if the node knows one. It comes with a Full beat.
	Copy *Copy

	// The other fields decide how much the node gets, but never how much all nodes get.

	// Waiting is the cost of the queue, with callers who are about to come back to it, and Ready is how much the node would have ready for the calls
	// to come until the next answer.
	Waiting, Ready Amounts
	// Curve is how much the node's callers would use at each level.
	Curve []Point
	// Demands are those of single leaves, by path.
	Demands []Demand
	// Under are paths of inner nodes below which the node has callers. It wants to know of all
	// demands there, of which it tells only its own.
	Under []string
}

// Booked is the usage in one slot.
type Booked struct {
	Slot int64
	Used Amounts
}

// Envelope bounds usage from a time on: Level at once, and Rate units a Window as time
// passes, for Left milliseconds.
type Envelope struct{ Level, Rate, Left int64 }

// Demand is the demand at one leaf of the tree, as a virtual cost a Window.
type Demand struct {
	Path string
	Rate int64
}

// Status is the store's answer to a beat.
type Status string

const (
	// Granted: it was booked, and Grant is valid.
	Granted Status = "granted"
	// Learning: it was booked, but nothing is granted yet, since the store does not know the
	// earlier usage.
	Learning Status = "learning"
	// Resend: the store knows nothing of the node, and has to be told everything.
	Resend Status = "resend"
	// Stale: a later beat came first.
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
	// Grant may be used, from when the beat was sent.
	Grant [axes]Envelope
	// Level is the water level: how much each unit of weight gets, as a virtual cost a Window. It
	// is negative if all demand can be met.
	Level float64
	// Totals are the demands of all nodes, at the leaves and below the paths that the beat named.
	Totals []Demand
	// Until is when Learning ends, and Lost says of it that there was an earlier memory.
	Until int64
	Lost  bool
	// Used is the usage that counts against the limits, of all nodes, with all that the beat told.
	Used Amounts
	// Format is the newest format that all nodes understand of which the memory knows; 0 is unknown.
	Format int
	// Digest is the account in short, as the store itself writes it down, for a memory that has lost it (Copy). It comes with
	// each grant, unless the beat arrived twice.
	Digest []byte `json:"-"`
}

// Copy is a node's knowledge of a memory that was lost. A new memory restores its account from the copies of
// those nodes that are still there; docs/federation-protocol.md has the reasoning.
type Copy struct {
	// Digest is the last one that an answer brought.
	Digest []byte `json:"-"`
	// Age is the most by which the clock of the memory before may have gone on since then. Shift is the most by which the new
	// memory's clock may be ahead of it.
	Age, Shift int64
	// Booked, Held, Refundable and May are the least that the digest contains of this node. The node cannot know it exactly,
	// since beats without an answer may have been booked. Refunded is by how much it has told less since then.
	Booked                          []Booked
	Held, Refundable, May, Refunded Amounts
	// Former says that the digest is of an earlier process, which is gone (Memory).
	Former bool
	// Journal is all that this process used, if it is Former and has kept a journal; else nil.
	Journal *Journal
}

// Journal is the usage of an earlier process of a node, by slot of the new memory's clock. Joined is as in the Beat.
type Journal struct {
	Joined int64
	Booked []Booked
}

// Point is a curve's use at a level: how much callers would use if each unit of weight got
// the level's amount, as a virtual cost a Window. Below the first point a curve goes to zero, after the
// last it is level, and straight in between.
type Point struct {
	Level float64
	Use   [axes]float64
}

// curve is a node's: points in the order of their levels.
type curve []Point
