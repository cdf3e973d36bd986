package federation

import "time"

// Memory is what a node keeps over a restart of its process, in case the store loses its data meanwhile: its last digest, and
// what the store's clock showed between Sent and Got. These are of the wall clock, because no other outlives a process.
type Memory struct {
	Digest       []byte
	Epoch, Clock int64
	Sent, Got    time.Time
}

// Memory is what the node has to keep; false if there is nothing.
func (n *Node) Memory() (Memory, bool) {
	k := &n.kept
	return Memory{Digest: k.digest, Epoch: k.epoch, Clock: k.clock.store, Sent: k.clock.sentAt.Round(0), Got: k.clock.gotAt.Round(0)}, len(k.digest) > 0
}

// remember takes over what an earlier process kept. All that this had used counts as used by others.
func (n *Node) remember(m *Memory) {
	if m == nil || len(m.Digest) == 0 {
		return
	}
	n.kept = kept{digest: m.Digest, epoch: m.Epoch, clock: storeClock{m.Clock, m.Sent.Round(0), m.Got.Round(0)}, former: true}
	n.epoch = m.Epoch
}
