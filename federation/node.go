package federation

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Config describes a Node.
type Config struct {
	// Name is the node's, unique among all that share the pool. Instance names the process: random,
	// and new at each start.
	Name, Region, Instance string
	Rules                  Rules
	// Seed sets the jitter of the beats.
	Seed uint64
	// Memory is that of an earlier process of this node; nil is none.
	Memory *Memory
}

// Node is one process's side of one pool: it says when to send which report to the
// store, and takes in the answers. It is pure: it has no clock, and its owner sends the messages.
// Times are of the process's own monotonic clock. It is not safe for concurrent use.
type Node struct {
	cfg Config
	rng *rand.Rand

	joined     bool
	fenced     bool
	full       bool // everything is to be told
	seq, acked int64
	epoch      int64     // of the last answer
	first      time.Time // when the first answer came
	now        time.Time // the latest time seen
	wary       time.Time // until then no grant is taken
	next, last time.Time // beats: when the next is due, when the last was sent

	storeClock

	sent    outstanding
	kept    kept
	allowed [axes]escrow.Allowance // as of the last answer
	known   book                   // this node's bookings as the store knows them
	unsure  map[int64]bool         // slots of which it may not have heard the latest
	placed  map[int64]placed       // by when the stretch ended
	past    int64                  // the latest slot of these
	demands demands
	takes   [axes]float64 // what calls take in a second, of late
}

// outstanding is the last beat.
type outstanding struct {
	at      time.Time
	spent   Amounts
	parts   Amounts // of a unit that the allowances had grown beyond whole ones
	booked  book
	held    Amounts
	limits  Amounts
	waiting Amounts
	had     [axes]Holding
	tree    []Claim
	level   float64 // Report.Level

	refundable Amounts
	holding    [axes]Envelope
	told       Amounts // Beat.Parts
}

// NewNode returns a node that has not spoken yet.
func NewNode(c Config) *Node {
	n := &Node{
		cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 7)), full: true,
		unsure: map[int64]bool{}, placed: map[int64]placed{}, demands: newDemands(),
	}
	n.remember(c.Memory)
	return n
}

// Pressure is how much a pool lacks at a moment.
type Pressure struct {
	// Waiting is the cost of the queue, and Head that of its first call.
	Waiting, Head Amounts
	Holding       [axes]Holding
}

// Due reports whether it is time for a beat: a regular one; or, if the last one was answered, one
// out of turn, which there is in three cases. Either the allowance of a beat's time will not suffice for
// the first call that waits; or, for all that wait, that of the time between two beats out of turn will
// not, and the store has not been told of half of them; or nothing waits here, not all elsewhere can go, and
// more was given back than the limit hands out in that time. Where everything is used that is rare,
// since the queue stays about the same.
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
		if n.sent.limits[k] <= 0 {
			continue
		}
		h := p.Holding[k]
		within := func(rate int64, d time.Duration) int64 {
			return grown(parts[k], rate, d.Milliseconds(), n.cfg.Rules.window())
		}
		switch eager := n.cfg.Rules.Eager; {
		case w <= 0 && n.demands.short && h.Refunded-n.sent.had[k].Refunded > within(n.sent.limits[k], eager),
			w > 0 && h.Left+within(h.Rate, n.cfg.Rules.Beat) < p.Head[k],
			w > 2*n.sent.waiting[k] && h.Left+within(h.Rate, eager) < w:
			return true
		}
	}
	return false
}

// Step takes in an event, and returns the commands that follow.
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

// beat makes the next beat from the pool's report.
func (n *Node) beat(now time.Time, r *Report) []Command {
	if n.fenced {
		return nil
	}
	n.observe(now, r.Spent)
	n.seq++
	n.last = now
	n.next = now.Add(time.Duration(float64(n.cfg.Rules.Beat) * (0.9 + 0.2*n.rng.Float64())))
	b := &Beat{
		Node: n.cfg.Name, Region: n.cfg.Region, Instance: n.cfg.Instance,
		Join: !n.joined, Seq: n.seq, Acked: n.acked, Epoch: n.epoch, Full: n.full, Format: Format,
		Limits: r.Limits, Burst: r.Burst, Reserve: r.Reserve,
		Held: r.Held, Refundable: r.Refundable, Waiting: r.waiting(), Ready: n.ready(r),
	}
	for k, h := range r.Holding {
		if left := h.Until.Sub(now); left > 0 {
			// One millisecond more than is possible by its clock, since the store counts whole ones.
			b.Holding[k] = Envelope{h.Left, h.Rate, (left + left/drift).Milliseconds() + 1}
		}
	}
	n.sent = outstanding{
		at: now, spent: r.Spent, parts: n.parts(now), held: r.Held, limits: r.Limits, waiting: b.Waiting, had: r.Holding, tree: r.Tree, level: r.Level,
		refundable: r.Refundable, holding: b.Holding,
	}
	if n.joined { // before that nothing can have been used
		b.Sent = n.lower(now)
		b.Joined = n.upper(n.first)
		n.sent.booked = n.bookings(now, r)
		b.Booked = n.changes()
		b.Past = n.past
		b.Parts = told(n.sent.parts)
		n.sent.told = b.Parts
		b.Copy = n.copy(now)
		n.tells(now)
	}
	b.Curve, b.Demands, b.Under = n.demands.tell(now, n.cfg.Rules, r.Tree)
	return []Command{Send{b}}
}

// answered takes in the answer to a beat. An answer to another beat than the last is not taken: by
// the last beat the store knows that it was not.
func (n *Node) answered(now time.Time, r *Reply) []Command {
	if r.Instance != n.cfg.Instance || r.Seq != n.seq || n.fenced || r.Seq <= n.acked {
		return nil
	}
	if r.Status != Fenced && now.Sub(n.sent.at) > n.cfg.Rules.TTL {
		return nil // it came too late to be of use, and says little of the store's clock
	}
	ahead := n.joined && r.Now > n.upper(now)
	if ahead { // the account has forgotten the usage of others, until they have told it again
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
	n.full = !n.joined && r.Status == Learning && n.kept.former && r.Epoch != n.kept.epoch
	if !n.joined {
		n.first = now
	}
	n.joined = true
	n.acked = r.Seq
	n.epoch = r.Epoch
	n.storeClock = storeClock{r.Now, n.sent.at, now}
	n.known = n.sent.booked
	n.keep(r)
	clear(n.unsure)
	if ahead { // everything will be told again anyway
		n.full = true
		n.kept = kept{} // it was counted by the slots of before
		n.replace()
	}
	out := n.demands.answered(r, n.sent.tree, n.sent.level)
	others := Others{n.others(r), max(0, r.Level)}
	if r.Status == Learning || now.Before(n.wary) {
		n.next = n.last.Add(n.cfg.Rules.Eager) // it ends as soon as all have told enough
		return append(out, others)
	}
	for k, e := range r.Grant {
		left := n.cfg.Rules.TTL
		if e != (Envelope{}) { // that nothing is granted now is an answer as well, and what may come is known as long
			left = time.Duration(e.Left) * time.Millisecond
		}
		n.allowed[k] = escrow.Allowance{
			Since: n.sent.at.Add(-n.carried(k, e.Rate)), Until: n.sent.at.Add(left - left/drift),
			Level: e.Level, Rate: e.Rate, Spent: n.sent.spent[k],
		}
		n.allowed[k].Spare, n.allowed[k].Saved = n.spare(k, r)
		out = append(out, Allow{escrow.Axis(k), n.allowed[k]})
	}
	return append(out, others)
}

// spare is how much more may come than is granted, and how much of it with the next grant: nothing if this one knew of calls that
// wait, and others want it, too. Less than two seconds of a limit are always on their way.
func (n *Node) spare(k int, r *Reply) (spare, saved int64) {
	limit := n.sent.limits[k]
	moving := int64(2 * float64(limit) / n.cfg.Rules.Window.Seconds())
	spare = max(0, limit-r.Used[k]-moving)
	if r.Level >= 0 && n.sent.waiting[k] > 0 {
		return spare, 0
	}
	return spare, spare
}

// others is the usage of other nodes, according to an answer to the last beat.
func (n *Node) others(r *Reply) Amounts {
	now := floorDiv(r.Now, n.cfg.Rules.slot())
	own := plus(n.sent.booked.sum(now-n.cfg.Rules.Slots, now), n.sent.held)
	return within(0, minus(r.Used, own), math.MaxInt64)
}

// observe brings the rate at which calls take of each axis to now.
func (n *Node) observe(now time.Time, spent Amounts) {
	if dt := now.Sub(n.last).Seconds(); n.seq > 0 && dt > 0 {
		for k := range n.takes {
			taken := float64(max(0, spent[k]-n.sent.spent[k])) / dt
			n.takes[k] += (taken - n.takes[k]) * (1 - math.Exp(-dt/doubt.Seconds()))
		}
	}
}

// ready is how much the node would have ready for calls to come, so that these find it there without asking: as much as calls take
// in a beat, twice the deviation of that, and the largest call. A
// node that knows of no call wants a second of the limit, with which a pool begins, unless not all can have what they ask for.
func (n *Node) ready(r *Report) (out Amounts) {
	for k, largest := range r.Largest {
		if largest > 0 {
			mean := n.takes[k] * n.cfg.Rules.Beat.Seconds()
			out[k] = largest + int64(mean+2*math.Sqrt(mean*float64(largest)))
		} else if !n.demands.short {
			out[k] = int64(float64(r.Limits[k]) / n.cfg.Rules.Window.Seconds())
		}
	}
	return out
}
