package federation

import (
	"fmt"
	"time"
)

// InUseError says why a pool cannot be declared new: Node was heard of so long Ago, or calls may run in it if that is empty.
type InUseError struct {
	Pool, Node string
	Ago        time.Duration
	// Wait is for how long what the node may have used still counts, if it is heard of no more.
	Wait time.Duration
}

func (e *InUseError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("a gateway uses slots of pool %s, or has used some until just now", e.Pool)
	}
	return fmt.Sprintf("gateway %s told of pool %s %.1f s ago", e.Node, e.Pool, e.Ago.Seconds())
}

// Declare takes an operator's word that no node has used anything in the last Window, and begins a memory that grants at once. The
// word is good for this memory alone, and for nothing if a node tells before the first grant that it runs and knows of another. incarnation names
// the server that remembers. Declare refuses while nodes are heard of, and while anything counts that one may have used.
func (a *Account) Declare(now int64, incarnation string) *InUseError {
	a.Now = max(a.Now, now)
	counts := a.Rules.window() + a.Rules.ttl() + a.Rules.slot()
	unused := a.Now < a.Learning && !a.Lost && a.used() == Amounts{}
	for _, name := range a.names() {
		m := a.Members[name]
		ago := a.Now - m.Seen
		if a.live(m) || !unused && ago <= counts {
			return &InUseError{Node: name, Ago: time.Duration(ago) * time.Millisecond, Wait: time.Duration(counts-ago) * time.Millisecond}
		}
	}
	fresh := NewAccount(a.Rules, a.Now, Options{Incarnation: incarnation, Fresh: true})
	fresh.Epoch = max(a.Epoch+1, a.Now)
	*a = *fresh
	return nil
}
