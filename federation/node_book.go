package federation

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// placed is the usage in a stretch that has ended, and its slot of the store.
type placed struct {
	end  time.Time
	slot int64
	used Amounts
}

// bookings are the pool's, by the latest slot of the store's clock in which they can have been
// used. A stretch that has ended stays where it was put, even when the pool tells of it no more,
// until the store's clock is past it too. A refund that was not told by then is not counted: for up to
// two slots too much is booked, never too little.
func (n *Node) bookings(now time.Time, r *Report) book {
	rules := n.cfg.Rules
	first := floorDiv(n.lower(now), rules.slot()) - rules.Slots
	for key, p := range n.placed {
		if p.slot < first {
			delete(n.placed, key)
		} else if now.Sub(p.end) < rules.Window {
			p.used = Amounts{} // the pool still tells the rest of it
			n.placed[key] = p
		}
	}
	var b book
	for _, x := range r.Bookings {
		var d Amounts
		d[x.Axis] = x.Cost
		key := x.End.UnixNano()
		p, there := n.placed[key]
		if !there {
			p = n.place(now, x)
		}
		if x.End.After(now) {
			b.add(p.slot, d)
		} else {
			p.used = plus(p.used, d)
			n.placed[key] = p
		}
	}
	for _, p := range n.placed {
		b.add(p.slot, p.used)
	}
	i, _ := b.find(first)
	return b[i:]
}

// place finds the slot of a booking. Usage that is not planned was before now.
func (n *Node) place(now time.Time, x escrow.Booking) placed {
	at := x.End
	if !x.Planned && at.After(now) {
		at = now
	}
	p := placed{end: x.End, slot: floorDiv(n.upper(at), n.cfg.Rules.slot())}
	if !x.Planned {
		n.past = max(n.past, p.slot)
	}
	return p
}

// changes are the slots about which the store may know something else.
func (n *Node) changes() []Booked {
	if n.full {
		return n.sent.booked
	}
	for _, x := range n.sent.booked {
		if n.known.at(x.Slot) != x.Used {
			n.unsure[x.Slot] = true
		}
	}
	for _, x := range n.known {
		if n.sent.booked.at(x.Slot) != x.Used {
			n.unsure[x.Slot] = true
		}
	}
	var out book
	for slot := range n.unsure {
		i, _ := out.find(slot)
		out = append(out[:i], append(book{{slot, n.sent.booked.at(slot)}}, out[i:]...)...)
	}
	return out
}

// forget makes the next beat tell everything, at once, by the clock of a store that knows nothing
// of this node.
func (n *Node) forget(now time.Time, r *Reply) {
	n.storeClock = storeClock{r.Now, n.sent.at, now}
	n.full = true
	if r.Epoch != n.epoch && n.kept.epoch != n.epoch {
		n.kept = kept{} // what was given back to another memory since, that one may have granted again
	}
	n.epoch = r.Epoch
	n.known = nil
	n.next = now
	n.past = 0
	clear(n.unsure)
	n.replace()
}

// replace puts usage into slots anew, by a store's clock that has changed.
func (n *Node) replace() {
	for key, p := range n.placed {
		p.slot = floorDiv(n.upper(p.end), n.cfg.Rules.slot())
		n.past = max(n.past, p.slot)
		n.placed[key] = p
	}
}
