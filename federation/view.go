package federation

import (
	"maps"
	"slices"
)

// View is an account as readers see it.
type View struct {
	// Epoch numbers the store's memories, and Now is its clock. Learning is until when
	// nothing is granted; 0 is not at all.
	Epoch, Now, Learning int64
	// Level is the water level, negative if all that is asked for can be had.
	Level float64
	// Limits are those that hold, and Booked is the usage of all nodes in the last Window.
	Limits, Booked Amounts
	// Nodes are in the order of their names.
	Nodes []NodeView
}

// NodeView is one node's part of a View.
type NodeView struct {
	Name, Region, Address string
	// Seen is when its last beat came, by the store's clock. Live says that it has been
	// heard of of late.
	Seen int64
	Live bool
	// Booked is its usage in the last Window, and Waiting the cost of its queue.
	Booked, Held, Waiting Amounts
	Grant                 [axes]Envelope
}

// View reads the account at now.
func (a *Account) View(now int64) View {
	a.Now = max(a.Now, now)
	from := a.slotOf(a.Now) - a.Rules.Slots
	to := a.slotOf(a.Now)
	v := View{Epoch: a.Epoch, Now: a.Now, Level: a.Level, Booked: a.Booked.sum(from, to)}
	if a.Learning > a.Now {
		v.Learning = a.Learning
	}
	for k := range v.Limits {
		v.Limits[k] = a.limit(k)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Members)) {
		m := a.Members[name]
		v.Nodes = append(v.Nodes, NodeView{
			Name: name, Region: m.Region, Address: m.Address, Seen: m.Seen, Live: a.live(m),
			Booked: m.Booked.sum(from, to), Held: m.Held, Waiting: m.Waiting, Grant: m.Grant,
		})
	}
	return v
}
