package federation

import (
	"math/rand/v2"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Config is what a Node is told once.
type Config struct {
	// Name is the node's, unique among all that share the pool. Instance is the
	// process's: random, new at each start.
	Name, Region, Instance string
	Rules                  Rules
	// Seed decides on the jitter of the beats.
	Seed uint64
}

// Node is one process's side of one pool: it says when to tell the store what, and what
// follows from the answers. It is pure: it has no clock, and whoever runs it sends what
// it wants sent. Times are of the process's own monotonic clock. It is not safe for
// concurrent use.
type Node struct {
	cfg Config
	rng *rand.Rand

	joined     bool
	fenced     bool
	full       bool // all is to be told
	seq, acked int64
	epoch      int64     // of the last answer
	first      time.Time // answer
	now        time.Time // the latest that was told
	wary       time.Time // until when nothing that is granted is taken
	next, last time.Time // beats: when the next is due, when the last was sent

	// The store's clock: it showed store between sentAt and gotAt.
	store         int64
	sentAt, gotAt time.Time

	sent    outstanding
	allowed [axes]escrow.Allowance // as of the last answer
	known   book                   // what the store has of this node
	unsure  map[int64]bool         // slots of which it was told something that it may not have heard
	placed  map[int64]placed       // by the end of the stretch
	past    int64                  // the latest slot of these
	demands demands
}

// outstanding is the last beat.
type outstanding struct {
	seq     int64
	at      time.Time
	spent   Amounts
	parts   Amounts // of a unit that the allowances had grown beyond whole ones
	booked  book
	limits  Amounts
	waiting Amounts
	tree    []Claim
}

// NewNode returns a node that has not spoken yet.
func NewNode(c Config) *Node {
	return &Node{
		cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 7)), full: true,
		unsure: map[int64]bool{}, placed: map[int64]placed{}, demands: newDemands(),
	}
}

// Pressure is how much a pool lacks at a moment.
type Pressure struct {
	// Waiting is what waits, and Head what the first call in the queue takes.
	Waiting, Head Amounts
	Holding       [axes]Holding
}

// Due reports whether it is time for a beat: in turn; or out of turn, when the last one
// was answered, and a beat's time will not suffice for the first call that waits, or the
// time that lies between two beats out of turn for all, of which the store has not been
// told of half. Where all is used that is rare, for what waits stays the same. Where demand
// wanders between nodes (d3) the 99th percentile of waits is 0.25 s; it is 0.35 s if for all,
// too, a beat's time has to suffice.
func (n *Node) Due(now time.Time, p Pressure) bool {
	switch {
	case n.fenced:
		return false
	case !now.Before(n.next):
		return true
	case n.acked < n.seq || now.Before(n.last.Add(n.cfg.Rules.Eager)):
		return false
	}
	parts := told(n.parts(now))
	for k, w := range p.Waiting {
		if w <= 0 || n.sent.limits[k] <= 0 {
			continue
		}
		within := func(d time.Duration) int64 {
			return p.Holding[k].Left + grown(parts[k], p.Holding[k].Rate, d.Milliseconds(), n.cfg.Rules.window())
		}
		if within(n.cfg.Rules.Beat) < p.Head[k] || within(n.cfg.Rules.Eager) < w && w > 2*n.sent.waiting[k] {
			return true
		}
	}
	return false
}

// Step takes in an event, and says what is to be done.
func (n *Node) Step(now time.Time, e Event) []Command {
	if now.Before(n.now) {
		now = n.now // time never runs backwards
	}
	n.now = now
	switch e := e.(type) {
	case *Report:
		return n.beat(now, e)
	case *Reply:
		return n.answered(now, e)
	}
	panic("llmgov: BUG: a node does not know this event")
}

// beat makes the next beat of what the pool reports.
func (n *Node) beat(now time.Time, r *Report) []Command {
	if n.fenced {
		return nil
	}
	n.seq++
	n.last = now
	n.next = now.Add(time.Duration(float64(n.cfg.Rules.Beat) * (0.9 + 0.2*n.rng.Float64())))
	b := &Beat{
		Node: n.cfg.Name, Region: n.cfg.Region, Instance: n.cfg.Instance,
		Join: !n.joined, Seq: n.seq, Acked: n.acked, Epoch: n.epoch, Full: n.full,
		Limits: r.Limits, Burst: r.Burst, Reserve: r.Reserve,
		Held: r.Held, Waiting: r.Waiting, Largest: r.Largest,
	}
	for k, h := range r.Holding {
		if left := h.Until.Sub(now); left > 0 {
			// A millisecond more than there can be by its clock: the store counts whole ones.
			b.Holding[k] = Envelope{h.Left, h.Rate, (left + left/drift).Milliseconds() + 1}
		}
	}
	n.sent = outstanding{seq: n.seq, at: now, spent: r.Spent, parts: n.parts(now), limits: r.Limits, waiting: r.Waiting, tree: r.Tree}
	if n.joined { // else nothing can have been used yet
		b.Sent, b.Joined = n.lower(now), n.upper(n.first)
		n.sent.booked = n.bookings(now, r)
		b.Booked, b.Past = n.changes(), n.past
		b.Parts = told(n.sent.parts)
	}
	b.Curve, b.Demands, b.Under = n.demands.tell(now, n.cfg.Rules, r.Tree)
	return []Command{Send{b}}
}

// answered takes in the answer to a beat. One to another beat than the last is not
// taken: the store has been told since that nothing came of it.
func (n *Node) answered(now time.Time, r *Reply) []Command {
	if r.Instance != n.cfg.Instance || r.Seq != n.seq || n.fenced || r.Seq <= n.acked {
		return nil
	}
	if r.Status != Fenced && now.Sub(n.sent.at) > n.cfg.Rules.TTL {
		return nil // it is worth nothing, and says little of the store's clock
	}
	ahead := n.joined && r.Now > n.upper(now)
	if ahead { // the account has forgotten what others used, until they have told it again
		n.wary = now.Add(n.cfg.Rules.TTL)
	}
	switch r.Status {
	case Fenced:
		n.fenced = true
		return []Command{Stop{}}
	case Resend:
		n.forget(now, r)
		return nil
	case Granted, Learning:
	default:
		return nil
	}
	if !n.joined {
		n.first = now
	}
	n.joined, n.full, n.acked, n.epoch = true, false, r.Seq, r.Epoch
	n.store, n.sentAt, n.gotAt = r.Now, n.sent.at, now
	n.known = n.sent.booked
	clear(n.unsure)
	if ahead { // what is told again is all, and so no news
		n.full = true
		n.replace()
	}
	out := n.demands.answered(r, n.sent.tree)
	if r.Status == Learning || now.Before(n.wary) {
		n.next = n.last.Add(n.cfg.Rules.Eager) // it ends as soon as all have told enough
		return out
	}
	for k, e := range r.Grant {
		left := time.Duration(e.Left) * time.Millisecond
		n.allowed[k] = escrow.Allowance{
			Since: n.sent.at.Add(-n.carried(k, e.Rate)), Until: n.sent.at.Add(left - left/drift),
			Level: e.Level, Rate: e.Rate, Spent: n.sent.spent[k],
		}
		out = append(out, Allow{escrow.Axis(k), n.allowed[k]})
	}
	return out
}
