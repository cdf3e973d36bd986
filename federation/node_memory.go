package federation

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Memory is what a node keeps over a restart of its process, in case the store loses its data meanwhile: its last digest, and
// what the store's clock showed between Sent and Got. Joined is when it had its first answer. These are of the wall clock,
// because no other outlives a process. Node is the node's name.
type Memory struct {
	Node         string
	Digest       []byte
	Epoch, Clock int64
	Sent, Got    time.Time
	Joined       time.Time
	// Journal is all that the node's processes used in the last Window, by the wall clock; nil if none is kept.
	Journal []escrow.Booking `json:"-"`
}

// Memory is what the node has to keep; false if there is nothing.
func (n *Node) Memory() (Memory, bool) {
	k := &n.kept
	m := Memory{
		Node: n.cfg.Name, Digest: k.digest, Epoch: k.epoch, Clock: k.clock.store,
		Sent: k.clock.sentAt.Round(0), Got: k.clock.gotAt.Round(0), Joined: n.first.Round(0),
	}
	return m, len(k.digest) > 0
}

// remember takes over what an earlier process kept. All that this had used counts as used by others.
func (n *Node) remember(m *Memory) {
	if m == nil || len(m.Digest) == 0 {
		return
	}
	n.kept = kept{digest: m.Digest, epoch: m.Epoch, clock: storeClock{m.Clock, m.Sent.Round(0), m.Got.Round(0)}, former: true}
	n.epoch = m.Epoch
}

// journal is the usage of the earlier process, by the clock of a memory that knows nothing of it; nil if it is unknown. That of
// another name is unknown too: two processes that read it one after the other would be two members, and count as two that have told.
func (n *Node) journal() *Journal {
	m := n.cfg.Memory
	if m.Journal == nil || m.Joined.IsZero() || m.Node != n.cfg.Name {
		return nil
	}
	var b book
	for _, x := range m.Journal {
		var used Amounts
		used[x.Axis] = x.Cost
		b.add(floorDiv(n.upper(x.End.Round(0)), n.cfg.Rules.slot()), used)
	}
	b.since(floorDiv(n.storeClock.store, n.cfg.Rules.slot()) - n.cfg.Rules.Slots)
	return &Journal{Joined: n.upper(m.Joined.Round(0)), Booked: b}
}
