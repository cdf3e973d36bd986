package federation

import (
	"slices"
	"time"
)

// kept is the last digest that a node had, and how its reports have changed since then.
type kept struct {
	digest []byte
	epoch  int64
	clock  storeClock // as of the answer that brought it
	former bool       // an earlier process had it
	// The least that the digest contains of this node: the least of each that it told by then or has told since. Beats without
	// an answer may have been booked.
	booked                book
	held, refundable, may Amounts
	// last is the last report. less is by how much less that is than at first, least is the least that this has been, and
	// refunded the most by which it has risen.
	last                  outstanding
	less, least, refunded Amounts
}

// keep takes the digest of an answer to the last beat.
func (n *Node) keep(r *Reply) {
	if len(r.Digest) == 0 {
		return
	}
	n.kept = kept{
		digest: r.Digest, epoch: r.Epoch, clock: n.storeClock,
		booked: n.sent.booked, held: n.sent.held, refundable: n.sent.refundable, may: n.sent.may(n.cfg.Rules, r.Grant),
		last: n.sent,
	}
}

// may is the most that the store counts of the node's envelopes with an answer.
func (o *outstanding) may(r Rules, grant [axes]Envelope) Amounts {
	m := Member{Parts: o.told, Holding: o.holding, Grant: grant}
	return m.may(r)
}

// tells notes the beat that is sent next.
func (n *Node) tells(now time.Time) {
	if n.kept.epoch != n.epoch || len(n.kept.digest) == 0 {
		return
	}
	k := &n.kept
	end := floorDiv(n.lower(now)+n.cfg.Rules.ttl(), n.cfg.Rules.slot()) // of a grant that is made now
	first := end - n.cfg.Rules.Slots
	k.less = plus(k.less, minus(k.last.counts(first, end), n.sent.counts(first, end)))
	k.least = lesser(k.least, k.less)
	for axis, less := range k.less {
		k.refunded[axis] = max(k.refunded[axis], less-k.least[axis])
	}
	k.last = n.sent
	booked := slices.Clone(k.booked)
	for _, x := range k.booked {
		booked.set(x.Slot, lesser(x.Used, n.sent.booked.at(x.Slot)))
	}
	k.booked = booked
	k.held = lesser(k.held, n.sent.held)
	k.refundable = lesser(k.refundable, n.sent.refundable)
	k.may = lesser(k.may, n.sent.may(n.cfg.Rules, [axes]Envelope{}))
}

// counts is the usage that a beat told in the slots from first to last. Plans for later slots are no part of it: they
// do not make up for what was given back in these.
func (o *outstanding) counts(first, last int64) Amounts {
	return plus(o.held, o.booked.sum(first, last))
}

// copy is for a memory that is new; nil if the node knows of no other.
func (n *Node) copy(now time.Time) *Copy {
	k := &n.kept
	if !n.full || n.epoch == k.epoch || len(k.digest) == 0 {
		return nil
	}
	slack := ceilDiv(4*n.cfg.Rules.window(), drift) // for everything from a Window ago to two ahead
	age := k.clock.upper(now) - k.clock.store
	if now.Before(k.clock.gotAt) { // the wall clock was put back, and says nothing
		age = 2 * n.cfg.Rules.window()
	}
	c := &Copy{
		Digest: k.digest, Age: age, Former: k.former, Shift: n.upper(now) - k.clock.lower(now) + slack,
		Booked: k.booked, Held: k.held, Refundable: k.refundable, May: k.may, Refunded: k.refunded,
	}
	if k.former {
		c.Journal = n.journal()
	}
	return c
}

func lesser(a, b Amounts) Amounts {
	for k := range a {
		a[k] = min(a[k], b[k])
	}
	return a
}
